"""League training (self-play): opponent pool, matchmaking, ratings, and seats of frozen opponents."""
