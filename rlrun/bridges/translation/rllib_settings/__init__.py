"""Conversions of RLlib's settings, one module per family, by the names in the table of foreign names.

RLlib sometimes uses other units: rows instead of env steps, sums instead of means over a batch, env steps instead of
minibatches between target updates. Each function documents the difference that it converts.
"""
