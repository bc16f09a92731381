"""Dataflow: streams of items through named operators, and their sources over workers."""
