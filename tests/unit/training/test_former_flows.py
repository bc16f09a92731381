"""Saved dataflows of earlier versions, translated to those of today."""

from __future__ import annotations

from typing import Any

import pytest

from rlrun.training.checkpointing import section_state
from rlrun.training.former_flows import from_version_1

PLANS = {
    "curiosity and a constraint": (
        "zip_with_worker IntrinsicRewards ComputeAdvantages ComputeAdvantages-2 ComputeAdvantages-3 WeightAdvantages "
        "ConcatBatches MeasureValues LagrangianAdvantages Standardize TrainOnBatch",
        "zip_with_worker IntrinsicRewards ComputeAdvantages ConcatBatches LagrangianAdvantages MeasureValues "
        "Standardize TrainOnBatch",
    ),
    "V-trace": (
        "zip_with_worker SendWeights zip_with_worker-2 IntrinsicRewards ReplayRecent ConcatBatches",
        "zip_with_worker IntrinsicRewards zip_with_worker-2 SendWeights ReplayRecent ConcatBatches",
    ),
    "two of one's own": ("ComputeAdvantages ComputeAdvantages-2", "ComputeAdvantages ComputeAdvantages-2"),
}


@pytest.mark.parametrize("name", PLANS)
def test_a_plan_of_version_1_becomes_that_of_today_and_keeps_states(name: str) -> None:
    former, present = PLANS[name]
    state = {"plan": former.split(), "operators": {"ConcatBatches": {"ready": []}}}
    saved = {"flow": {"version": 1, "state": state}}
    assert section_state(saved, "flow") == {"plan": present.split(), "operators": {"ConcatBatches": {"ready": []}}}
    assert section_state({"flow": {"version": 2, "state": state}}, "flow") == state


@pytest.mark.parametrize("state", [{}, {"plan": None}, {"plan": [["WeightAdvantages"], 3]}])
def test_what_is_no_plan_is_left_for_the_dataflow_to_refuse(state: dict[str, Any]) -> None:
    assert from_version_1(state) == state
