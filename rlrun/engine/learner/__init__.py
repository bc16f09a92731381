"""Learners: updates of policies' parameters by gradient descent."""
