"""Replay buffers: storage of experience, sampling of minibatches, priorities, and shards in other processes."""
