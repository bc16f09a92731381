"""League training (self-play): a pool of past policies, matchmaking, ratings, and frozen opponents in the env."""
