"""Use of a training's current weights: actions for observations, evaluation episodes, and games."""
