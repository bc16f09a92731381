"""Exploration strategies, one per file: action noise, epsilon-greedy, parameter noise, sampling and others."""
