"""ArCHer for dialogue agents: an off-policy critic of whole utterances, and an on-policy actor that chooses tokens."""
