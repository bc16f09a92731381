"""Adapter to Ray Tune: the trainable that runs in its actors, its scheduler, its source of trials, its callbacks."""
