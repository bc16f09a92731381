"""Assembly of a training from its parts, and the description of a training before it starts."""
