"""Losses of value heads, summed over streams of rewards."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch

from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.learner.value_losses import summed_value_losses


def test_value_losses_are_summed_over_heads_and_the_env_rewards_head_is_listed_first() -> None:
    valid = torch.tensor([[1.0, 1.0, 0.0]])
    outputs: Any = SimpleNamespace(
        further_values={"cost": torch.tensor([[1.0, 2.0, 9.0]]), "intrinsic": torch.tensor([[0.0, 4.0, 9.0]])}
    )
    batch = SampleBatch(
        cost_value_targets=torch.tensor([[0.0, 2.0, 0.0]]), intrinsic_value_targets=torch.tensor([[0.0, 0.0, 0.0]])
    )
    total, losses = summed_value_losses(outputs, batch, torch.tensor([[3.0, 1.0, 7.0]]), valid)
    assert {name: loss.item() for name, loss in losses.items()} == {
        "value_loss": 2.0,
        "cost_value_loss": 0.5,
        "intrinsic_value_loss": 8.0,
    }
    assert next(iter(losses)) == "value_loss"
    assert total.item() == 10.5
