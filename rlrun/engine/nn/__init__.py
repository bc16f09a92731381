"""Neural networks: observation encoders, recurrent cores and heads in torch, with NumPy counterparts for acting."""
