"""Training of one or several policies by their algorithms: iterations, saving and restoring."""
