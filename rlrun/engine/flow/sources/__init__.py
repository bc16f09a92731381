"""Sources of flows: fragments of rollout workers, minibatches of a replay buffer, items of an iterable."""
