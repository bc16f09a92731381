"""Objects in Ray actors: a wrapper that holds each object, supervision with restarts, and a private Ray instance."""
