"""Results of iterations, and data sets that a run writes."""
