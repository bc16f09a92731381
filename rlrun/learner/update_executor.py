"""How the updates of a run are computed."""

from __future__ import annotations

from typing import Literal

UpdateExecutor = Literal["eager", "numpy", "compiled"]
"""By torch's operations one by one, by NumPy kernels on a traced graph, or by that graph compiled.

It is fixed for the whole run, since the last digits differ. With `numpy`, an update that there are no kernels for runs
by torch's operations all the same.
"""
