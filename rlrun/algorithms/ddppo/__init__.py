"""DD-PPO: PPO whose rollout workers learn and all-reduce their gradients."""
