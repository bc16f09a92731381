"""Data-parallel learners in Ray actors, which sum gradients by all-reduce or through parameter servers."""
