"""Conversions of the settings of ES and ARS."""

from __future__ import annotations

from typing import Any

from rlrun.bridges.translation.foreign_settings import ForeignSettings
from rlrun.bridges.translation.remarks import Impact
from rlrun.bridges.translation.settings import Conversions, only

conversion = Conversions()
"""Conversions by name, and the decorator that adds one."""


@conversion
def pairs(foreign: ForeignSettings, key: str, value: Any) -> int:
    """Number of mirrored pairs of perturbations: half the episodes, as each perturbation is tried with both signs."""
    return max(round(float(value) / 2), 1)


@conversion
def top_pairs(foreign: ForeignSettings, key: str, value: Any) -> Any:
    """Number of pairs used in an ARS update: the share `rollouts_used / num_rollouts` of all pairs."""
    used = min(value / foreign.get("num_rollouts"), 1.0)
    return None if used == 1.0 else max(round(used * pairs(foreign, key, foreign.get("num_rollouts"))), 1)


conversion["only_empty_offset"] = only((0, None), "perturbations are drawn from seeds here", Impact.NONE)
