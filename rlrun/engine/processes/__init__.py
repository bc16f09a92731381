"""Signals, and how the processes of a command end."""
