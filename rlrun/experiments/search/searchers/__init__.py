"""Searchers that choose the next configuration (Optuna, BOHB), and the journal from which a search resumes."""
