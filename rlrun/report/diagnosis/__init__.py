"""Diagnosis: checks of a run's metrics for common causes of poor learning, with advice."""
