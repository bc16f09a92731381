"""Leagues: frozen opponents in the seats of a world, who plays whom, and ratings."""
