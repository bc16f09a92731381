"""Columns of experience and the trees they are made of."""
