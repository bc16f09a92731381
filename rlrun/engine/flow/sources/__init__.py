"""Sources of dataflows: rollout workers, a replay buffer, data sets, or any iterable."""
