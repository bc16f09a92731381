"""Additional rewards with separate value heads: intrinsic rewards (curiosity), and costs of a constraint."""
