"""Objects in Ray actors: a shell around each object, supervision with restarts, and a private Ray instance."""
