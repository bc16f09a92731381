"""Runs on the disk: their directories and how they stand; and what a run reports while it runs."""
