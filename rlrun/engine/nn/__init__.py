"""Neural networks: observation encoders, recurrent cores and heads in torch, with NumPy mirrors for acting."""
