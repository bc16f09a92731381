"""ArCHer for dialogue agents: an off-policy critic for whole utterances, and an on-policy actor that chooses tokens."""
