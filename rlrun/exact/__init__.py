"""Exact solutions: optimal values, certificates, exploitability, and off-policy estimates from data."""
