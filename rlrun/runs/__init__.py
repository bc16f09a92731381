"""Runs on the disk, their directories and states, and the events of running runs."""
