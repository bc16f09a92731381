"""How actions are drawn, scored and turned into an env's own, a file per kind of action space."""
