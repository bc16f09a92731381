"""Entry points that run experiments and resume runs, for Python and for the command line."""
