"""The executors of updates."""

from __future__ import annotations

from typing import Literal

UpdateExecutor = Literal["eager", "numpy", "compiled"]
"""Torch's operations one by one, NumPy kernels on a traced graph, or that graph compiled.

It is fixed for the whole run, since the last digits differ. With `numpy`, an update with an operation that has no
kernel runs by torch's operations.
"""
