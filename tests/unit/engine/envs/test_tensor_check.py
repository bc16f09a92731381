"""Findings of the check of tensor envs, for faults of one env."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from torch import Tensor

from rlrun.engine.envs.env_config import EnvConfig
from rlrun.engine.envs.tensor_check import check_tensor_env
from rlrun.engine.envs.tensor_vector_env import FinalObservations, TensorStep

HERE = "tests.unit.engine.envs.test_tensor_check"


class Walk:
    """Walk that starts at the slot's seed, moves by the actions, and is truncated every five steps."""

    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (1,), np.float32)
    action_space = gymnasium.spaces.Box(-1, 1, (1,), np.float32)
    is_only_one = False

    def __init__(self, num_envs: int, device: torch.device, fault: str = "") -> None:
        self.num_envs, self.device, self.fault = num_envs, device, fault
        self.seeds_episodes = fault != "no seeds"
        self.seeds, self.at, self.lengths = torch.zeros((3, num_envs))
        self.rewards = torch.zeros(num_envs)

    def reset(self, *, seeds: Tensor | None = None, mask: Tensor | None = None) -> Tensor:
        chosen = torch.ones(self.num_envs, dtype=torch.bool) if mask is None else mask
        if seeds is not None:
            self.seeds = torch.where(chosen, (seeds % 7).float(), self.seeds)
        if self.fault == "slots differ":
            self.seeds = torch.arange(self.num_envs) % 7 / 1.0
        if self.fault == "unseeded":
            self.seeds = torch.rand(self.num_envs)
        self.at, self.lengths = torch.where(chosen, self.seeds, self.at), torch.where(chosen, 0, self.lengths)
        return self.at[:, None].clone()

    def step(self, actions: Tensor) -> TensorStep:
        self.at, self.lengths = self.at + actions[:, 0], self.lengths + 1
        over = self.lengths >= 5
        last = self.at[:, None].clone()
        first = self.reset(mask=over)
        rewards = torch.add(actions[:, 0], 1, out=self.rewards) if self.fault == "reuses" else actions[:, 0] + 1
        if self.fault == "NaN":
            rewards = rewards / 0 * 0
        finals = FinalObservations(over, first if self.fault == "late finals" else last)
        flags = torch.zeros_like(over), over.long() if self.fault == "integers" else over
        return TensorStep(first, rewards, *flags, None if self.fault == "no finals" else finals)

    def state(self) -> Mapping[str, Any] | None:
        if self.fault == "no state":
            return None
        return {"seeds": self.seeds, "at": self.at.clone(), "lengths": self.lengths.clone()}

    def load_state(self, state: Mapping[str, Any]) -> Tensor:
        self.seeds, self.at = state["seeds"], state["at"]
        self.lengths = self.lengths if self.fault == "forgets" else state["lengths"]
        return self.at[:, None].clone()

    def close(self) -> None:
        """Nothing to free."""


def config_of(fault: str) -> EnvConfig:
    return EnvConfig.parse({"tensors": f"{HERE}:Walk", "kwargs": {"fault": fault}})


def verdicts(fault: str) -> dict[str, str]:
    found = check_tensor_env(config_of(fault), steps=64 * 22, seed=0)
    return {one.topic: one.verdict for one in found if one.topic != "speed"}  # the speed depends on the machine


SOUND = {
    "observation space": "ok",
    "action space": "ok",
    "device": "ok",
    "observations": "ok",
    "rewards": "ok",
    "flags": "ok",
    "final observations": "ok",
    "buffers": "ok",
    "seeds": "ok",
    "saved state": "ok",
}


@pytest.mark.skipif(torch.cuda.is_available(), reason="expects that the check runs on the CPU")
@pytest.mark.parametrize(
    ("fault", "topic", "verdict"),
    [
        ("", "", ""),
        ("reuses", "", ""),
        ("NaN", "rewards", "wrong"),
        ("late finals", "final observations", "wrong"),
        ("no finals", "final observations", "note"),
        ("unseeded", "seeds", "wrong"),
        ("slots differ", "seeds", "wrong"),
        ("no seeds", "seeds", "note"),
        ("forgets", "saved state", "wrong"),
        ("no state", "saved state", "note"),
    ],
)
def test_a_check_finds_each_fault_and_nothing_else(fault: str, topic: str, verdict: str) -> None:
    found = verdicts(fault)
    assert found.pop("synchronization") == "note"  # waits can only be detected on a GPU
    expected = SOUND | ({topic: verdict} if topic else {})
    if fault == "unseeded":  # a state without the generator is not complete either
        assert found.pop("saved state") == "wrong"
        del expected["saved state"]
    assert found == expected


def test_the_finding_about_reused_buffers_names_the_buffers() -> None:
    (buffers,) = [one for one in check_tensor_env(config_of("reuses"), steps=64 * 22, seed=0) if one.topic == "buffers"]
    assert "rewards" in buffers.found


def test_end_flags_of_the_wrong_type_are_refused() -> None:
    assert verdicts("integers") == {"observation space": "ok", "action space": "ok", "returns": "wrong"}
