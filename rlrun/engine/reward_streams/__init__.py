"""Reward streams with value heads of their own: intrinsic rewards of curiosity, and costs of a constraint."""
