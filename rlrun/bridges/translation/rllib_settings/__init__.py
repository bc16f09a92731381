"""Conversions of RLlib's settings, a file for each family, by the names in the table of foreign names.

RLlib counts otherwise in places: rows and env steps, sums and means over a batch, env steps and minibatches between
updates of a target network. Each function names what it relies on.
"""
