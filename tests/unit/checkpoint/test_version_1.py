"""Checkpoints of the first format, kept in version_1/: what they learned is taken over, and they act as they acted.

Beside each lie the last result before it was saved and what its policy did then: the likeliest actions for some
observations, of R2D2 for four episodes. None of the discrete ones hangs on a rounding: none changes where observations
are moved by 0.001.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from safetensors.numpy import load_file

import rlrun
from rlrun.checkpoint.format import read_checkpoint
from tests.rounding import rounding_error

KEPT = Path(__file__).parent / "version_1"
NAMES = ("apex", "dqn", "ppo", "r2d2", "sac")
HAVE_TARGETS = ("apex", "dqn", "r2d2", "sac")


def numbers(checkpoint: Path, room: str) -> NDArray[np.float32]:
    """Returns all numbers of a room of a checkpoint in ascending order: tensors may be named and cut otherwise."""
    files = (checkpoint / room).rglob("*.safetensors")
    return np.sort(np.concatenate([tensor.ravel() for path in files for tensor in load_file(path).values()]))


def moments(state: Any) -> Iterator[list[float]]:
    """Yields the running moments of a state, wherever they are: count, mean and squares."""
    if isinstance(state, dict) and set(state) == {"count", "mean", "squares"}:
        yield [float(state["count"]), *np.ravel(state["mean"]).tolist(), *np.ravel(state["squares"]).tolist()]
    elif isinstance(state, dict | list | tuple):
        for part in state.values() if isinstance(state, dict) else state:
            yield from moments(part)


@pytest.mark.parametrize("name", NAMES)
def test_weights_targets_optimizers_and_filters_are_those_of_the_files(name: str, tmp_path: Path) -> None:
    kept = KEPT / name / "checkpoint"
    with rlrun.Training.restore(kept) as training:
        saved = training.save(tmp_path / "saved")
    for room in ("policies", "optimizers", *(["targets"] if name in HAVE_TARGETS else [])):
        before = numbers(kept, room)
        assert np.ptp(before) > 0
        np.testing.assert_array_equal(numbers(saved, room), before)
    filters = list(moments(read_checkpoint(kept).state["learner"]))
    assert len(filters) == {"ppo": 2, "dqn": 1}.get(name, 0)
    present = list(moments(read_checkpoint(saved).state))
    assert [found for found in filters if found not in present] == []


@pytest.mark.parametrize("name", NAMES)
def test_counters_go_on(name: str) -> None:
    last = json.loads((KEPT / name / "last_result.json").read_text())
    with rlrun.Training.restore(KEPT / name / "checkpoint") as training:
        row = training.step()
    assert row["iteration"] == last["iteration"] + 1
    assert last["env_steps"] + 190 < row["env_steps"] < last["env_steps"] + 300
    assert last["sgd_steps"] <= row["sgd_steps"] < last["sgd_steps"] + 300
    assert last["weights_version"] <= row["weights_version"] <= last["weights_version"] + row["sgd_steps"]
    assert row["episodes"] >= last["episodes"] > 0
    if name == "ppo":
        assert row["learner/lr"] < 3e-3 * (1 - last["env_steps"] / 10_000) + 1e-9


@pytest.mark.parametrize("name", NAMES)
def test_actions_are_those_that_the_saved_policy_took(name: str) -> None:
    acted = np.load(KEPT / name / "acted.npz")
    with rlrun.Training.restore(KEPT / name / "checkpoint") as training:
        actions = np.array(
            [
                training.act(observation, episode_start=bool(starts))
                for observation, starts in zip(acted["observations"], acted["starts"], strict=True)
            ]
        )
    if name == "sac":
        np.testing.assert_allclose(actions, acted["actions"], atol=rounding_error(3 + 8 + 8, size=2.0))
    else:
        assert set(acted["actions"]) == {0, 1}
        np.testing.assert_array_equal(actions, acted["actions"])
