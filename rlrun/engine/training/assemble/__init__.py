"""Assembly of a training from env, algorithms and settings, and its description before it starts."""
