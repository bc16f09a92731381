"""Executors of parameter updates: C kernels, NumPy, compiled code and CUDA graphs."""
