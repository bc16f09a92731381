"""Bridges to other libraries: their specs, policies, data sets and env servers."""
