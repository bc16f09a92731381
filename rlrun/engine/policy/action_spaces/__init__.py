"""Action spaces of policies: sampling, log-probabilities and conversion to env actions; one file per kind."""
