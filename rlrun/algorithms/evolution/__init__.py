"""Evolutionary search in parameter space: ES, ARS, CEM and CMA-ES."""
