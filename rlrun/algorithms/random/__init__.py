"""Uniformly random actions: the baseline of every comparison."""
