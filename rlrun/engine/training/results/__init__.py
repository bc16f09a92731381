"""Results of iterations, and other output of a run."""
