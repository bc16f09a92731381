"""Replay buffers: storage, sampling, priorities and shards."""
