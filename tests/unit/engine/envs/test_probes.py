"""Probes find what is wrong with a small linear system, and nothing in the sound one."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.envs.registration import EnvSpec
from gymnasium.spaces import Box, Discrete, MultiDiscrete

from rlrun.engine.envs.env_config import EnvConfig
from rlrun.engine.envs.env_findings import EnvFinding
from rlrun.engine.envs.probes.probe import Probe, probe, probe_of

DYNAMICS = np.array([[1.0, 0.1], [-0.1, 0.98]])
STEPS = 40


class Mass(gymnasium.Env[Any, Any]):
    """Mass on a spring, pushed by the action; rewards are high near the origin. A name selects what is wrong."""

    def __init__(self, fault: str = "") -> None:
        self.fault = fault
        bound = {"clipped": 4.0, "unbounded": np.inf}.get(fault, 1.0)
        self.action_space: Any = Box(-bound, bound, (2,), np.float32)
        if fault in ("choices", "equal choices", "no choice", "idle choice"):
            self.action_space = Discrete(3, start=-1)
        if fault == "unused part":
            self.action_space = MultiDiscrete([3, 2])
        self.observation_space = Box(-np.inf, np.inf, (1 if fault in ("no velocity", "time") else 2,), np.float32)
        if fault in ("shown clock", "moving goal and time"):
            self.observation_space = Box(-np.inf, np.inf, (3,), np.float32)
        self.state, self.steps, self.latest = np.zeros(2), 0, np.zeros(2, np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.state, self.steps = self.np_random.normal(size=2), 0
        self.latest = self._shown()
        return self.latest, {}

    def step(self, action: Any) -> Any:
        before = self.latest
        push = np.ravel(action).astype(float)
        if self.fault == "equal choices":
            push = np.maximum(push, 0)
        if self.fault in ("no choice", "half"):
            push = push * 0
        if self.fault == "unused part":
            push = push[:1]
        force = float(np.clip(push, -1, 1).sum()) if self.fault != "second number" else float(push[0])
        stays = self.fault == "idle choice" and force == 0
        if not stays:
            self.state = DYNAMICS @ self.state + np.array([0.0, force])
        self.steps += 1
        reward = -float(self.state @ self.state)
        if self.fault in ("clock", "shown clock"):
            reward = 10.0 * (self.steps % 5 == 0) + 0.01 * reward
        if self.fault in ("moving goal", "moving goal and time"):
            reward = -abs(float(self.state[0]) - 2 * np.sin(2 * np.pi * self.steps / STEPS))
        if self.fault == "constant":
            reward = 1.0
        self.latest = self._shown()
        shown = before if self.fault == "late" else self.latest
        ends = self.steps == STEPS
        terminates = self.fault in ("limit", "shown clock")
        return shown, reward, ends and terminates, ends and not terminates, {}

    def _shown(self) -> Any:
        if self.fault == "time":
            return np.array([self.steps / STEPS], np.float32)
        if self.fault == "moving goal and time":
            return np.append(self.state, self.steps / STEPS).astype(np.float32)
        if self.fault == "shown clock":
            return np.append(self.state, self.steps % 5 + self.steps / 100).astype(np.float32)
        return self.state[:1].astype(np.float32) if self.fault == "no velocity" else self.state.astype(np.float32)


class Arm(gymnasium.Env[Any, Any]):
    """Arm with two links and fast joints; shows cosines and sines of angles, velocities and the tip; hides nothing."""

    def __init__(self) -> None:
        self.action_space = Box(-1.0, 1.0, (2,), np.float32)
        self.observation_space = Box(-np.inf, np.inf, (10,), np.float32)
        self.angles, self.speeds, self.goal, self.steps = np.zeros(2), np.zeros(2), np.zeros(2), 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.angles, self.goal, self.steps = self.np_random.uniform(-0.1, 0.1, 2), self.np_random.normal(size=2), 0
        self.speeds = np.zeros(2)
        return self._shown(), {}

    def step(self, action: Any) -> Any:
        self.speeds = 0.95 * self.speeds + np.array([2.0, 6.0]) * action
        self.angles = self.angles + 0.02 * self.speeds
        self.steps += 1
        return self._shown(), -float(np.square(action).sum()), False, self.steps == STEPS, {}

    def _shown(self) -> Any:
        turned = np.array([self.angles[0], self.angles.sum()])
        tip = np.array([np.cos(turned).sum(), np.sin(turned).sum()])
        parts = [np.cos(self.angles), np.sin(self.angles), self.goal, self.speeds, tip - self.goal]
        return np.concatenate(parts).astype(np.float32)


def probed(monkeypatch: pytest.MonkeyPatch, fault: str) -> Probe:
    monkeypatch.setitem(gymnasium.registry, "Mass-v0", EnvSpec("Mass-v0", Mass))
    return probe(EnvConfig(id="Mass-v0", kwargs={"fault": fault}), 1600, 0)


@pytest.mark.parametrize("fault", ["", "choices", "shown clock", "moving goal and time"])
def test_a_sound_env_has_no_findings(monkeypatch: pytest.MonkeyPatch, fault: str) -> None:
    found = probed(monkeypatch, fault)
    assert (found.findings, found.effects.changes_observations, found.effects.delay) == ([], True, 0)
    assert found.reward_gap == pytest.approx(1.0, abs=0.01)
    assert found.sees_rewards


def test_no_hidden_state_is_reported_for_a_fully_observed_env_with_complex_dynamics(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(gymnasium.registry, "Arm-v0", EnvSpec("Arm-v0", Arm))
    assert probe(EnvConfig(id="Arm-v0"), 1600, 0).findings == []


@pytest.mark.parametrize(
    ("fault", "topic", "is_severe"),
    [
        ("clipped", "clipped actions", True),
        ("unbounded", "clipped actions", True),
        ("second number", "inert actions", True),
        ("unused part", "inert actions", True),
        ("equal choices", "inert actions", True),
        ("no choice", "inert actions", True),
        ("idle choice", "inert actions", False),
        ("no velocity", "hidden state", True),
        ("late", "late observations", True),
        ("clock", "hidden clock", True),
        ("moving goal", "hidden clock", True),
        ("time", "observed clock", True),
        ("limit", "time limit", True),
        ("constant", "rewards", False),
    ],
)
def test_each_fault_leads_to_its_own_finding_and_no_other(
    monkeypatch: pytest.MonkeyPatch, fault: str, topic: str, is_severe: bool
) -> None:
    (finding,) = probed(monkeypatch, fault).findings
    assert (finding.topic, finding.verdict, finding.is_severe) == (topic, "note", is_severe)
    assert all((finding.found, finding.reason, finding.advice))


def test_the_finding_about_clipped_actions_names_the_bounds(monkeypatch: pytest.MonkeyPatch, wording) -> None:
    (finding,) = probed(
        monkeypatch, "clipped"
    ).findings  # of the actions 4, 2.4, 1.2, 0.4 and 0.12, the first three have the same effect
    assert finding.found == wording("action[0]", "-1.2", "1.2", "action[1]")


def test_the_delay_of_an_action_is_the_number_of_steps_until_its_effect_is_visible(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert probed(monkeypatch, "late").effects.delay == 1
    assert probed(monkeypatch, "no velocity").effects.delay == 1  # the velocity changes first, but it is not shown


def test_constant_rewards_count_as_a_reward_gap_of_a_whole_episode(monkeypatch: pytest.MonkeyPatch) -> None:
    found = probed(monkeypatch, "constant")
    assert (found.reward_gap, found.sees_rewards) == (STEPS, False)


def test_multi_agent_worlds_and_envs_with_invalid_results_are_not_probed() -> None:
    wrong = [EnvFinding("returns", "wrong", "NaN")]
    assert probe_of(EnvConfig(id="CartPole-v1"), wrong, steps=100) is None
    assert probe_of(EnvConfig.parse({"world": "rlrun.toys:CartPoles"}), [], steps=100) is None
