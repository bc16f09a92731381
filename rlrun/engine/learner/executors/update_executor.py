"""Backends that run parameter updates, by name: eager torch, NumPy, compiled code, or CUDA graphs."""

from __future__ import annotations

from typing import Literal

UpdateExecutor = Literal["eager", "numpy", "c", "compiled", "cuda_graph"]
"""Executor of updates: eager torch; NumPy calls or C kernels from a traced graph; torch's compiler; or CUDA graphs.

The executor is fixed for a run, since results differ in the last digits. Except with torch's compiler, an update that
contains an unsupported operation runs eagerly.
"""
