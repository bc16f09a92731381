"""Backends that run parameter updates, by name: eager torch, NumPy, or compiled code."""

from __future__ import annotations

from typing import Literal

UpdateExecutor = Literal["eager", "numpy", "c", "compiled"]
"""Executor of updates: eager torch; NumPy calls or C kernels from a traced graph; or torch's compiler.

The executor is fixed for a run, since results differ in the last digits. With `numpy` and `c`, an update with an
operation that has no kernel runs eagerly.
"""
