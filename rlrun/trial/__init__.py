"""One trial without Ray: its loop, result files and checkpoints."""
