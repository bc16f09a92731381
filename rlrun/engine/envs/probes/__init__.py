"""Probes of a single-agent env: what its actions change, and what its observations leave out."""
