"""Decision Transformer: actions from a sequence of returns-to-go, states and actions."""
