"""Exact solutions: optimal values, certificates, exploitability, and estimates of policies from data."""
