"""On-disk format of checkpoints: atomic writes, verified reads, and no executable content."""
