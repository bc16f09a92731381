"""Results of iterations, and other outputs of a run."""
