"""Meta-learning: MAML for reinforcement learning."""
