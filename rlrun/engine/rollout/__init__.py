"""Rollout workers, the set of them, and evaluation."""
