"""Regression runs: whether experiments still reach what their specs expect, and learn as well as a stored run did."""
