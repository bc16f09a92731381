"""Running experiments from Python and from the command line, and going on with runs."""
