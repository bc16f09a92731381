"""Loggers that send a trial's results to services; each is imported only when a spec names it."""
