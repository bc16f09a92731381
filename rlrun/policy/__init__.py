"""What acts and what learns, by family."""
