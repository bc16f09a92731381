"""Acting with the current weights of a training: actions for observations, evaluation episodes, games."""
