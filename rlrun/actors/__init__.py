"""Objects in Ray actors: the shell around one, the supervision of many, a Ray of one's own."""
