"""``rlrun ope``: tables and documents of off-policy evaluations, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete

from rlrun import PPO, Training
from rlrun.engine.datasets.layout import LOGP, LOGP_FORM
from rlrun.engine.datasets.writer import SetWriter
from tests.command import rlrun

EPISODES, STEPS = 20, 4


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two checkpoints `a` and `b` with different weights, and `c` with a different gamma."""
    folder = tmp_path_factory.mktemp("saved")
    for name, seed, gamma in (("a", 0, 0.9), ("b", 1, 0.9), ("c", 0, 0.5)):
        with Training("CartPole-v1", PPO(gamma=gamma, compile=False), seed=seed) as training:
            training.save(folder / name)
    return folder


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Uniformly random actions in observations of CartPole; the reward is 1 for the action 1."""
    folder = tmp_path_factory.mktemp("data") / "set"
    draws = np.random.default_rng(0)
    with SetWriter(folder, Box(-np.inf, np.inf, (4,)), Discrete(2), further={LOGP: LOGP_FORM}) as writer:
        for _ in range(EPISODES):
            actions = draws.integers(2, size=STEPS)
            last = np.arange(STEPS) == STEPS - 1
            writer.add_episode(
                {
                    "obs": draws.normal(size=(STEPS + 1, 4)).astype(np.float32),
                    "actions": actions,
                    "rewards": actions.astype(np.float64),
                    "terminateds": last,
                    "truncateds": np.zeros(STEPS, np.bool_),
                    LOGP: np.full(STEPS, np.log(0.5), np.float32),
                }
            )
    return folder


def test_a_checkpoint_is_evaluated_by_all_off_policy_estimators(
    saved: Path, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wording
) -> None:
    monkeypatch.setenv("RLRUN_CACHE", str(tmp_path))
    done = rlrun("ope", saved / "a", "--data", data, "--sgd-steps", 3)
    assert done.exit_code == 0, done.output
    lines = done.stdout.splitlines()
    assert lines[:2] == [
        str(saved / "a"),
        wording("0.9", "20", "80", data=data),
    ]
    assert lines[2].split() == ["estimator", "value", "low", "high", "effective", "size", "remarks"]
    found = json.loads(rlrun("ope", saved / "a", "--data", data, "--sgd-steps", 3, "--json").stdout)
    assert (found["policy"], found["gamma"], found["episodes"], found["steps"]) == ("stochastic", 0.9, 20, 80)
    estimates = {row["estimator"]: row for row in found["estimates"]}
    assert len(estimates) == 8
    first = estimates["importance sampling"]
    # A new policy draws its actions almost uniformly, as the behavior policy did.
    assert first["value"] == pytest.approx(0.5 * (1 - 0.9**STEPS) / 0.1, abs=0.6)
    assert first["ci95"][0] < first["value"] < first["ci95"][1]
    assert first["effective_size"] == pytest.approx(20, abs=1)
    assert lines[3].split()[:3] == ["importance", "sampling", f"{first['value']:.4g}"]
    elsewhere = json.loads(rlrun("ope", saved / "a", "--data", f"file://{data}", "--sgd-steps", 3, "--json").stdout)
    assert elsewhere == {**found, "data": f"file://{data}"}


def test_checkpoints_are_ranked_and_their_differences_are_shown(saved: Path, data: Path) -> None:
    words = ("ope", saved / "a", saved / "b", "--data", data, "--rank", "--sgd-steps", 3)
    done = rlrun(*words)
    assert done.exit_code == 0, done.output
    assert "ranked by weighted doubly robust" in done.stdout
    found = json.loads(rlrun(*words, "--json").stdout)
    values = [
        next(row["value"] for row in each["estimates"] if row["estimator"] == found["ranked_by"])
        for each in found["checkpoints"]
    ]
    assert values == sorted(values, reverse=True)
    (pair,) = found["pairs"]
    assert pair["difference"] == pytest.approx(values[0] - values[1])
    assert pair["better"] == found["checkpoints"][0]["checkpoint"]
    assert f"pairs with a significant difference: {int(pair['differs'])} of 1" in done.stdout
    assert ("  1 and 2 may be equal: difference " in done.stdout) is not pair["differs"]


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["a", "b"], 2, "several checkpoints need --rank"),
        (["a", "--rank"], 2, "--rank needs at least two checkpoints"),
        (["a", "c", "--rank"], 2, "ranked policies must have the same gamma, but"),
    ],
)
def test_invalid_comparisons_are_refused(saved: Path, data: Path, words: list[str], code: int, message: str) -> None:
    paths = [saved / word if len(word) == 1 else word for word in words]
    done = rlrun("ope", *paths, "--data", data, "--sgd-steps", 1)
    assert done.exit_code == code
    assert message in done.output
    assert "Traceback" not in done.output


def test_missing_data_sets_and_mismatched_spaces_are_refused(saved: Path, tmp_path: Path, wording) -> None:
    done = rlrun("ope", saved / "a", "--data", tmp_path / "nothing")
    assert done.exit_code == 2
    assert done.output == wording(tmp_path / "nothing")
    with SetWriter(tmp_path / "other", Box(-1.0, 1.0, (3,)), Discrete(2)):
        pass
    done = rlrun("ope", saved / "a", "--data", tmp_path / "other")
    assert done.exit_code == 2
    assert "the policy was trained with" in done.output


def test_multi_agent_checkpoints_are_refused(data: Path, tmp_path: Path, wording) -> None:
    with Training({"world": "rlrun.toys:TicTacToe"}, PPO(compile=False)) as training:
        training.save(tmp_path / "board")
    done = rlrun("ope", tmp_path / "board", "--data", data)
    assert done.exit_code == 2
    assert done.output == wording()


def test_data_sets_without_episodes_or_with_several_agents_are_refused(saved: Path, tmp_path: Path, wording) -> None:
    spaces = Box(-np.inf, np.inf, (4,)), Discrete(2)
    with SetWriter(tmp_path / "empty", *spaces):
        pass
    done = rlrun("ope", saved / "a", "--data", tmp_path / "empty")
    assert done.exit_code == 2
    assert done.output == wording(tmp_path / "empty")
    with SetWriter(tmp_path / "two", *spaces) as writer:
        for agent in ("left", "right"):
            numbers = {"actions": [0], "rewards": [1.0], "terminateds": [True], "truncateds": [False]}
            columns = {name: np.array(column) for name, column in numbers.items()}
            writer.add_episode({"obs": np.zeros((2, 4), np.float32), **columns}, agent=agent)
    done = rlrun("ope", saved / "a", "--data", tmp_path / "two")
    assert done.exit_code == 2
    assert done.output == wording()
