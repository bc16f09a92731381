"""Searchers that choose the next configuration (Optuna, HyperOpt, BOHB), and the journal by which they are resumed."""
