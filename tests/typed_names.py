"""What type checkers know about the public names: `make check` checks that each ignored error here occurs."""

from __future__ import annotations

from typing import assert_type

import rlrun
from rlrun import PPO, SAC, Training
from rlrun.plugin import PPOConfig, RowSampler, SACConfig


def typed_names() -> None:
    """Uses names of both public modules, correctly and incorrectly."""
    assert_type(PPO(lr=1e-3, model={"hiddens": [32, 32]}, clip_param=[[0, 0.2], [10_000, 0.1]]).config, PPOConfig)
    assert_type(SAC(replay={"sampling": "prioritized"}).config, SACConfig)
    assert_type(Training("CartPole-v1", PPO(num_workers=2)), Training)
    PPO(learning_rate=1e-3)  # type: ignore[call-arg]
    PPO(lr="fast")  # type: ignore[arg-type]
    PPO(precision="float64")  # type: ignore[arg-type]
    rlrun.Nothing  # type: ignore[attr-defined]  # noqa: B018
    rlrun.plugin.Nothing  # type: ignore[attr-defined]  # noqa: B018
    RowSampler()  # type: ignore[abstract]
