"""Saving a training's state in checkpoints, and restoring it."""
