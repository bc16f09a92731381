"""Encoders, heads and their dense mirrors in NumPy."""
