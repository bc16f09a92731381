"""Experience that is kept and learned from more than once."""
