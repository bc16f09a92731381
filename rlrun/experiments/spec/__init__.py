"""Parsing and validation of spec files: YAML with source positions, search spaces and experiments."""
