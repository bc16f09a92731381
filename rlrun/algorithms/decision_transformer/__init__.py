"""Decision Transformer: predicts actions from sequences of returns-to-go, states and actions."""
