"""Backends that run parameter updates, by name: eager torch, NumPy, or compiled code."""

from __future__ import annotations

from typing import Literal

UpdateExecutor = Literal["eager", "numpy", "compiled"]
"""Type of the executor of updates: eager torch, NumPy kernels on a traced graph, or the compiled graph.

The executor is fixed for a run, since results differ in the last digits. With `numpy`, an update with an operation that
has no kernel runs eagerly.
"""
