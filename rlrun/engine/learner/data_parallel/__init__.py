"""Data-parallel learners in Ray actors, which sum gradients by all-reduce."""
