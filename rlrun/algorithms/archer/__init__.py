"""ArCHer: an off-policy critic of whole utterances, and an on-policy actor of their tokens (dialogue agents)."""
