"""Policies, each with a part for learning (torch) and a part for acting in rollout workers (NumPy)."""
