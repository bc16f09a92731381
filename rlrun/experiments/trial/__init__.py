"""Execution of one trial without Ray: training loop, result files and checkpoints."""
