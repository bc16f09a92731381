"""Uniformly random actions, a baseline for comparisons."""
