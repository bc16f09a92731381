"""Processes: signals, and the ends of parents and children."""
