"""State of a training in checkpoints."""
