"""Learners: gradient-based updates of policies' parameters."""
