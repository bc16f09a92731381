"""Regression tests of learning: experiments against the targets in their specs, and against a stored baseline run."""
