"""Toys: small envs, worlds, games and scripted players for tests, examples and specs; nothing imports them."""
