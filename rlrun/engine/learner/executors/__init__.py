"""Executors of parameter updates: C kernels, NumPy, compiled code, CUDA graphs."""
