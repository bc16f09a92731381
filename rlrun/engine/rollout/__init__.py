"""Rollouts: workers, sets of workers, and evaluation."""
