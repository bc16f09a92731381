"""Learning from preferences between episodes: a reward model, PPO on its rewards, and DPO."""
