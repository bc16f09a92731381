"""Data sets of other libraries, converted to and from the project's format."""
