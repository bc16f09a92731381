"""Exploration strategies: one file for each way to choose exploratory actions."""
