"""Offline and imitation learning: policies from recorded data, without stepping an env."""
