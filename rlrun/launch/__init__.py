"""Runs experiments and resumes runs, for Python and for the command line."""
