from __future__ import annotations

import re
import time
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.envs.registration import EnvSpec
from gymnasium.spaces import Box, Discrete

from rlrun.engine.envs.env_config import EnvConfig
from rlrun.engine.envs.env_findings import EnvFinding, reward_findings, speed_finding
from rlrun.engine.envs.env_watch import hangs_fail_after
from rlrun.engine.worlds.env_check import check_by_stepping
from rlrun.engine.worlds.mapping import PolicyMapping

STUCK = "the lever is stuck"


class Line(gymnasium.Env[Any, Any]):
    """A walk on a line from 0; a name selects what it does wrong."""

    action_space: Any = Discrete(2)

    def __init__(self, fault: str = "") -> None:
        self.fault = fault
        self.observation_space = Box(-np.inf, np.inf, (1,), np.float32)
        if fault == "bounds":
            self.observation_space = Box(-0.5, 0.5, (1,), np.float32)
        if fault == "free actions":
            self.action_space = Box(-np.inf, np.inf, (1,), np.float32)
        self.place, self.steps = 0.0, 0
        self.own, self.counted = np.random.default_rng(), np.random.default_rng(0)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.steps = 0
        if self.fault == "stuck at reset":
            raise RuntimeError(STUCK)
        self.place = float(self.np_random.normal())
        if self.fault == "noise":
            self.place = float(self.own.normal())
        if self.fault == "deterministic":
            self.place = 0.0
        if self.fault == "one start":
            self.place = 0.3
        if self.fault == "own generator":
            self.place = float(self.counted.normal())
        return self.seen(), {}

    def step(self, action: Any) -> Any:
        self.steps += 1
        if self.fault == "hangs" and self.steps == 5:
            time.sleep(600)
        if self.fault == "stuck" and self.steps == 5:
            raise RuntimeError(STUCK)
        self.place += float(np.ravel(action)[0]) - 0.5
        if self.fault == "late noise" and self.steps == 5:
            self.place += float(self.own.normal())
        reward = {"large": 100.0, "none": 0.0, "tiny": 1e-5}.get(self.fault, self.place)
        if self.fault == "NaN reward" and self.steps == 3:
            reward = float("nan")
        if self.fault == "four values":
            return self.seen(), reward, False, {}
        if self.fault == "flag":
            return self.seen(), reward, "no", False, {}
        both = self.steps == 10 and self.fault != "endless"
        if self.fault == "one step":
            both = True
        return self.seen(), reward, both, both and self.fault == "both", {}

    def seen(self) -> Any:
        if self.fault == "NaN" and self.steps == 3:
            return np.array([np.nan], np.float32)
        if (self.fault == "late shape" and self.steps == 3) or self.fault == "bad reset":
            return np.zeros(2, np.float32)
        if self.fault == "double" and self.steps:
            return np.array([self.place])
        scale = {"far": 1000.0, "constant": 0.0}.get(self.fault, 1.0)
        return np.array([scale * self.place], np.float32)


def stepped(config: EnvConfig) -> list[EnvFinding]:
    return check_by_stepping(config, PolicyMapping(("agent",)), {}, steps=200)


def findings(monkeypatch: pytest.MonkeyPatch, fault: str) -> dict[str, EnvFinding]:
    """Returns the findings for a line with a fault, by topic, without those that are ok."""
    monkeypatch.setitem(gymnasium.registry, "Line-v0", EnvSpec("Line-v0", Line))
    config = EnvConfig(id="Line-v0", kwargs={"fault": fault})
    return {one.topic: one for one in stepped(config) if one.verdict != "ok"}


def test_a_correct_env_has_no_findings(monkeypatch: pytest.MonkeyPatch) -> None:
    assert findings(monkeypatch, "") == {}


@pytest.mark.parametrize(
    ("fault", "topics"),
    [
        ("noise", {"seeds": "wrong", "resume": "wrong"}),
        ("far", {"observations": "note"}),
        ("constant", {"observations": "note"}),
        ("bounds", {"observations": "note"}),
        ("large", {"rewards": "note"}),
        ("tiny", {"rewards": "note"}),
        ("none", {"rewards": "note"}),
        ("endless", {"episodes": "note"}),
        ("both", {"episodes": "note"}),
        ("one step", {"episodes": "note"}),
        ("free actions", {"action space": "note"}),
        ("deterministic", {"seeds": "note"}),
        ("one start", {"seeds": "note"}),
        ("own generator", {"seeds": "wrong", "resume": "wrong"}),
        ("double", {"observations": "note"}),
        ("NaN", {"observations": "wrong"}),
        ("NaN reward", {"returns": "wrong"}),
        ("late shape", {"returns": "wrong"}),
        ("four values", {"returns": "wrong"}),
        ("flag", {"returns": "wrong"}),
        ("bad reset", {"returns": "wrong"}),
    ],
)
def test_each_defect_of_an_env_is_found(monkeypatch: pytest.MonkeyPatch, fault: str, topics: dict[str, str]) -> None:
    found = findings(monkeypatch, fault)
    assert {topic: one.verdict for topic, one in found.items()} == topics
    assert all(one.found and one.reason for one in found.values())


def test_starts_that_ignore_the_seed_are_a_severe_finding_only_if_they_look_random(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert findings(monkeypatch, "one start")["seeds"].is_severe
    assert not findings(monkeypatch, "deterministic")["seeds"].is_severe


def test_rewards_are_a_severe_finding_only_if_they_are_far_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    assert findings(monkeypatch, "far")["observations"].is_severe
    found = [*reward_findings(np.array([11.0])), *reward_findings(np.array([101.0])), *reward_findings(np.zeros(1))]
    assert [one.is_severe for one in found] == [False, True, False]
    assert [one.is_severe for one in reward_findings(np.array([0.0] * 999 + [1001.0]))] == [True]  # rare, but huge


def test_an_invalid_return_value_does_not_hide_findings_about_earlier_steps(
    monkeypatch: pytest.MonkeyPatch, wording
) -> None:
    monkeypatch.setitem(gymnasium.registry, "Line-v0", EnvSpec("Line-v0", Line))
    found = {one.topic: one for one in stepped(EnvConfig(id="Line-v0", kwargs={"fault": "late shape"}))}
    assert found["returns"].found == wording()
    assert {"observation space", "observations", "rewards", "seeds", "speed"} <= found.keys()
    assert found["seeds"].found == wording()


def test_an_observation_of_a_different_dtype_is_reported_although_it_is_cast(
    monkeypatch: pytest.MonkeyPatch, wording
) -> None:
    assert findings(monkeypatch, "double")["observations"].found == wording()


def test_a_slow_env_is_reported_with_the_time_training_would_take(wording) -> None:
    slow = speed_finding(510, 10.0, "in one process")
    assert (slow.verdict, slow.found) == ("note", wording("steps/s", "51"))
    assert slow.reason == wording("5.4")
    assert speed_finding(2000, 10.0, "in one process").verdict == "ok"
    assert speed_finding(10, 0.9, "in one process").verdict == "ok"  # too few steps to judge by


def test_noise_within_an_episode_is_reported_with_its_step(monkeypatch: pytest.MonkeyPatch, wording) -> None:
    found = findings(monkeypatch, "late noise")
    assert found["seeds"].found == wording()


def test_a_nan_observation_has_the_verdict_wrong(monkeypatch: pytest.MonkeyPatch, wording) -> None:
    found = findings(monkeypatch, "NaN")["observations"]
    assert (found.verdict, found.found) == ("wrong", wording("NaN"))


def test_the_check_of_an_env_that_hangs_gives_up_and_names_the_step(monkeypatch: pytest.MonkeyPatch) -> None:
    with hangs_fail_after(0.5):
        found = findings(monkeypatch, "hangs")["exception"]
    place = r"step\(\) \(worker 0, env 0, .*, step 5\)"
    assert re.search(place, found.found)
    assert "0.5 s" in found.traceback


@pytest.mark.parametrize("fault", ["stuck", "stuck at reset"])
def test_an_env_that_raises_is_reported_with_its_traceback_after_all_earlier_findings(
    fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(gymnasium.registry, "Line-v0", EnvSpec("Line-v0", Line))
    found = {one.topic: one for one in stepped(EnvConfig(id="Line-v0", kwargs={"fault": fault}))}
    assert [one.topic for one in found.values() if one.verdict == "wrong"] == ["exception"]
    assert found["exception"].traceback.startswith("Traceback ")
    assert found["exception"].traceback.endswith(f"RuntimeError: {STUCK}")
    assert "loop_vector_env" not in found["exception"].traceback
    general = {"observation space", "action space", "backend", "exception"}
    played = {"observations", "rewards", "seeds", "speed"}
    assert found.keys() >= general
    assert (found.keys() >= played) is (fault == "stuck")
