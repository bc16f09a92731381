"""Pieces of dataflow that several algorithms share, each a handful of named operators."""
