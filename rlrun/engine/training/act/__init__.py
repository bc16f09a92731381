"""Acting, evaluation and games with a training's current weights."""
