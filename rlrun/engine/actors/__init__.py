"""Objects in Ray actors: the shell around each, supervision and restarts, a private Ray."""
