"""Acting with the current weights of a training: inference, evaluation episodes, games."""
