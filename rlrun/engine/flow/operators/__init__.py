"""Operators from which dataflows are built: forming batches, learning, sending weights, and replay."""
