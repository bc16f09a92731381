"""What runs one trial without Ray: its loop, its result files, its checkpoints."""
