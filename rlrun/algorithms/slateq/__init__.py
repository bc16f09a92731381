"""SlateQ: Q-learning of slates of items, of which a user chooses one or none."""
