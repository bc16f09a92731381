"""SlateQ: Q-learning of slates of items, from which a user chooses one item or none."""
