"""Process control: signals, and the termination of parent and child processes."""
