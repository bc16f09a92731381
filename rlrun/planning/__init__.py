"""Search: games as arrays, and trees of them that grow side by side (NumPy alone)."""
