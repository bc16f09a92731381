from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rlrun.engine.data.demonstrations import Demonstrations, load_demonstrations
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.messages.errors import UsageError


def two_episodes() -> Demonstrations:
    valid = np.array([1, 1, 0, 1, 0], np.bool_)
    columns = {
        "actions": np.array([2, 0, 0, 1, 1]),
        "rewards": np.array([1.0, 2.0, 0.0, 3.0, 0.0]),
        "terminateds": np.array([0, 1, 0, 0, 0], np.bool_),
        "truncateds": np.array([0, 0, 0, 1, 0], np.bool_),
        "valid": valid,
    }
    parts = {"place/x": np.arange(10.0).reshape(5, 2), "0": np.arange(5)}
    return Demonstrations(columns, parts, {"env": "Somewhere-v0"})


def like(shape: tuple[int, ...] = (2,)) -> SampleBatch:
    observations = {"place": {"x": np.zeros((4, 3, *shape), np.float32)}, "0": np.zeros((4, 3), np.int64)}
    return SampleBatch(obs=observations)


def test_a_demonstration_file_holds_what_was_written_and_has_the_same_bytes_every_time(tmp_path: Path) -> None:
    first, again = tmp_path / "first.npz", tmp_path / "again.npz"
    for path in (first, again):
        two_episodes().save(path)
    assert first.read_bytes() == again.read_bytes()
    found = load_demonstrations(str(first))
    assert found.num_steps == 3
    assert found.about == {"format": 1, "env": "Somewhere-v0"}
    for name, column in two_episodes().columns.items():
        np.testing.assert_array_equal(found.columns[name], column)
    for name, column in two_episodes().observations.items():
        np.testing.assert_array_equal(found.observations[name], column)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["again.npz", "first.npz"]


def test_a_relative_path_to_demonstrations_is_resolved_in_the_folder_of_the_spec(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    two_episodes().save(tmp_path / "shown.npz")
    with pytest.raises(UsageError, match="rlrun demonstrate"):
        load_demonstrations("shown.npz")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert load_demonstrations("shown.npz").num_steps == 3


def test_demonstrations_form_the_same_fragment_that_a_worker_would_collect() -> None:
    fragment = two_episodes().fragment(like())
    assert fragment["valid"].ravel().tolist() == [True, True, False, True, False]
    assert fragment["episode_starts"].ravel().tolist() == [True, False, False, True, False]
    assert fragment["actions"].ravel().tolist() == [2, 0, 0, 1, 1]
    assert fragment["truncateds"].ravel().tolist() == [False, False, False, True, False]
    assert fragment["rewards"].dtype == fragment["obs"]["place"]["x"].dtype == np.float32
    assert fragment["obs"]["place"]["x"][:, 0, 0].tolist() == [0, 2, 4, 6, 8, 8]
    assert fragment["obs"]["0"].ravel().tolist() == [0, 1, 2, 3, 4, 4]


def test_actions_are_numbered_from_the_first_action_of_the_space() -> None:
    shown = two_episodes()
    counted = Demonstrations(shown.columns, shown.observations, {"first_action": -1})
    assert counted.fragment(like())["actions"].ravel().tolist() == [3, 1, 1, 2, 2]


def test_demonstrated_observations_of_a_different_shape_are_refused(wording) -> None:
    with wording.raised(UsageError, "place/x"):
        two_episodes().fragment(like((3,)))


@pytest.mark.parametrize(
    "columns",
    [
        {},
        {"about": np.array('{"format": 2}'), **two_episodes().columns},
        {"about": np.array('{"format": 1}'), **two_episodes().columns, "obs": np.zeros(3)},
        {"about": np.array([{"format": 1}], object), **two_episodes().columns},
        {"about": np.array('{"format": 1}'), **two_episodes().columns, "obs/x": np.array([0, 1, np.nan, 3, 4])},
        {"about": np.array('{"format": 1}'), **two_episodes().columns, "rewards": np.array([0, 1, 2, np.inf, 4])},
    ],
)
def test_files_that_are_not_valid_demonstrations_are_refused(tmp_path: Path, columns: dict[str, Any], wording) -> None:
    np.savez(tmp_path / "other.npz", **columns)
    with wording.raised(UsageError):
        load_demonstrations(str(tmp_path / "other.npz"))
    (tmp_path / "other.npz").write_text("not even an archive")
    with wording.raised(UsageError):
        load_demonstrations(str(tmp_path / "other.npz"))
