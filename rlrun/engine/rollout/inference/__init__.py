"""Inference server, which chooses the actions of all rollout workers, and the parts of workers that use it."""
