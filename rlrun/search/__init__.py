"""Searchers and scheduling rules, and their records in a run's directory."""
