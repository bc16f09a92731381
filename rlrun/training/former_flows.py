"""Migration of saved dataflow states from earlier versions of the operators."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

MERGED = re.compile(r"ComputeAdvantages-\d+|WeightAdvantages")
"""Paths of stateless operators from earlier versions, which are merged into the first ComputeAdvantages today."""


def from_version_1(state: Mapping[str, Any]) -> dict[str, Any]:
    """Migrates a flow's saved state from version 1 of its section to the current version.

    In version 1, each reward stream had a separate ComputeAdvantages, the Lagrangian came after MeasureValues, and
    asynchronous algorithms sent weights before computing intrinsic rewards. Paths of stateful operators are unchanged,
    so that only the plan is translated.

    Args:
        state: State of a flow; a state without a plan is returned unchanged, and rejected on loading.
    """
    plan = state.get("plan")
    if not isinstance(plan, list) or not all(isinstance(path, str) for path in plan):
        return dict(state)
    plan = list(plan)
    if "WeightAdvantages" in plan or "LagrangianAdvantages" in plan:
        plan = [path for path in plan if not MERGED.fullmatch(path)]
    if "LagrangianAdvantages" in plan and "ConcatBatches" in plan:
        plan.remove("LagrangianAdvantages")
        plan.insert(plan.index("ConcatBatches") + 1, "LagrangianAdvantages")
    if "SendWeights" in plan and "IntrinsicRewards" in plan:
        sends, rewards = plan.index("SendWeights"), plan.index("IntrinsicRewards")
        plan[min(sends, rewards)], plan[max(sends, rewards)] = "IntrinsicRewards", "SendWeights"
    return {**state, "plan": plan}
