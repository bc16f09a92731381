"""Offline and imitation learning: policies learned from recorded data, without stepping an env."""
