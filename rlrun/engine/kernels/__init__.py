"""Numerical kernels in C for learning and acting, compiled once per machine and called through a table of steps."""
