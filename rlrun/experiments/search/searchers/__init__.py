"""Searchers that choose the next configuration (Optuna, BOHB), and the journal by which they are resumed."""
