"""Results of iterations, and what a run writes beside them."""
