"""Tabular methods: Q-learning and value iteration."""
