"""Results of iterations (metrics), and data sets that a run writes."""
