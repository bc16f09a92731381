"""Assembly of a training from its parts, and its description before the start."""
