"""Assembly of a training run's parts from env, algorithms and settings, and its description before it starts."""
