"""Inference in one place: a server that chooses the actions of all rollout workers, and what workers need for it."""
