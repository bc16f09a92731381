"""Rollout workers, the set of workers, and evaluation."""
