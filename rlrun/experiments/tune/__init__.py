"""Adapter to Ray Tune: trainable, scheduler, source of trials, and callbacks."""
