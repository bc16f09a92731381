"""Policies: their learning side (torch), and their acting side in rollout workers (NumPy)."""
