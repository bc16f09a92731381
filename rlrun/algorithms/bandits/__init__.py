"""Contextual linear bandits: LinUCB and linear Thompson sampling."""
