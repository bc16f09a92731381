"""Learners, which update policies' parameters by gradient descent."""
