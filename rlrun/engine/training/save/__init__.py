"""Saving a training run's state in checkpoints, and restoring it."""
