"""Exploration strategies of behavior policies, one file per kind."""
