"""Adapter to Ray Tune: its trainable, scheduler, source of trials and callbacks."""
