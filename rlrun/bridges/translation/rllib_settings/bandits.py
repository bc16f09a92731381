"""Conversions of linear bandits' settings."""

from __future__ import annotations

from typing import Any

from rlrun.bridges.translation.foreign_settings import OMIT, ForeignSettings
from rlrun.bridges.translation.remarks import Impact
from rlrun.bridges.translation.settings import Conversions, only

conversion = Conversions()
"""Conversions by name, and the decorator that adds one."""


@conversion
def posterior_scale(foreign: ForeignSettings, key: str, value: Any) -> Any:
    """Scale of the posterior in Thompson sampling, which equals that of RLlib's covariance."""
    kind = str((value or {}).get("type")).rpartition(".")[2]
    if kind != "ThompsonSampling":
        foreign.tell(key, f"{foreign.algorithm} does not explore by {kind} here", Impact.LEARNING)
        return OMIT
    return 1.0


conversion["only_whole_covariance"] = only((1, None), "covariances do not shrink further here", Impact.LEARNING)
