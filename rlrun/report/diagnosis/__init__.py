"""Diagnosis: checks of a run's metrics for usual causes of poor learning, with advice."""
