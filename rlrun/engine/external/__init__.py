"""Simulators as clients: the protocol, the server of episodes, and the files that clients copy."""
