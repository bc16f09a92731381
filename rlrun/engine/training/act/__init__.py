"""Acting, evaluation and games with a training run's current weights."""
