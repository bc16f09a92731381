"""Policies that learn from groups of episodes with the same start, without a value network: GRPO and RLOO."""
