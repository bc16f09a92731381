"""Runs on disk (directories, states, results), and the events of a running run."""
