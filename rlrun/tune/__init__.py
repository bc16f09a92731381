"""The adapter to Ray Tune: what runs in its actors, and who decides about its trials."""
