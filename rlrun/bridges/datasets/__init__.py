"""Conversion of other libraries' data sets to and from rlrun's format."""
