"""Runs on disk (directories, states, results), and events of a run in progress."""
