"""Operators from which dataflows are built: batches, learning, weights, replay."""
