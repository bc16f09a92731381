"""Data-parallel learners in Ray actors, with all-reduce or parameter servers."""
