"""Spec files: YAML with source positions, search spaces, experiments."""
