"""The on-disk format of checkpoints."""
