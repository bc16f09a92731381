"""The built-in algorithms, which are loaded by name: a file each, or a folder for a family with parts of its own."""
