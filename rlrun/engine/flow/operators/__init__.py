"""Operators from which dataflows are built: they form batches, train, send weights and use replay buffers."""
