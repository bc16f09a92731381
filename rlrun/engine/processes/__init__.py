"""Signals, and the ways in which a command's processes end."""
