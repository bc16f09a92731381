"""Assembly of a training's parts from env, algorithms and settings, and its description before it starts."""
