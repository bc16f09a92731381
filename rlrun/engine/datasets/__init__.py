"""Data sets: recorded experience in a folder of memory-mapped files with a manifest."""
