"""Policies: learner side (torch) and behavior policies of rollout workers (NumPy)."""
