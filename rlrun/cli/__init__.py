"""What a user types: parse, call one function, print."""
