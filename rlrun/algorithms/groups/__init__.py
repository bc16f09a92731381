"""Policies that learn from groups of episodes with equal starts, without a value network: GRPO and RLOO."""
