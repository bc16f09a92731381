"""Worlds of many agents."""
