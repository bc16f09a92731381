"""Where flows begin: fragments of rollout workers, minibatches of a replay buffer, items of an iterable."""
