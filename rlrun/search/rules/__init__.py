"""Scheduling rules: pure functions of the results so far that say which trials go on, stop, wait or change."""
