"""What sends a trial's results to services; each is imported only when a spec asks for it."""
