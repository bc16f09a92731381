"""Batches of experience: columns, trees of arrays, and spaces."""
