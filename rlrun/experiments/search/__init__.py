"""Hyperparameter search: searchers, scheduling rules, and records of both in a run's directory."""
