"""Probes of a single-agent env: what its actions change, and what its observations omit."""
