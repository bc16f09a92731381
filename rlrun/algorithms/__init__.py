"""The built-in algorithms, a file each; they are loaded by name."""
