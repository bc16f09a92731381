"""Numerical kernels in C for learning and acting, compiled once per machine and run as a list of operations."""
