"""Evaluation by exact values, exploitability, satisfaction of LTL tasks, and off-policy estimates from data."""
