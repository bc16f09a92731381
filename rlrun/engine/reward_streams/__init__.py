"""Additional rewards with separate value heads: intrinsic rewards of curiosity, and costs of a constraint."""
