"""Rollout workers, which collect experience from envs, and evaluation of policies."""
