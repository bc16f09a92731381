"""Command-line interface: commands that parse arguments, call one function and print the result."""
