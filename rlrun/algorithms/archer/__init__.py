"""ArCHer for dialogue agents: an off-policy critic of complete utterances, and an on-policy actor of their tokens."""
