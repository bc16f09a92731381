"""Toy envs, multi-agent worlds, games and scripted players, for tests, examples and specs."""
