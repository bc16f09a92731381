"""Experiments: specs, search, runs and their trials, on this machine or a cluster."""
