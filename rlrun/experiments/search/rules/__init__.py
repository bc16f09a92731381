"""Scheduling rules: pure functions of the results so far that continue, stop, pause or change trials."""
