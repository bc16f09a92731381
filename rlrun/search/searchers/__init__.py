"""What chooses the next configuration of a search: Optuna, BOHB, and the journal from which each goes on."""
