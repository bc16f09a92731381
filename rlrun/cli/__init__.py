"""Command-line interface: each command parses arguments, calls one function and prints the result."""
