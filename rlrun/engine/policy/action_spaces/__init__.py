"""Action spaces: sampling, log-probability and conversion to env actions, one file per kind of space."""
