"""Training of one or several policies in an env: iterations, saving and restoring."""
