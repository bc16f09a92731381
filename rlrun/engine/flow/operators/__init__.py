"""Operators of flows: batches, learning, weights, replay."""
