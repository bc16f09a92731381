"""Loggers that send a trial's results to services; each is imported only if a spec names it."""
