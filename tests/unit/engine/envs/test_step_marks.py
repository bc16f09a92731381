"""Notes of envs that are stepped one by one about their position, and how a later process reads them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import gymnasium
import numpy as np
import pytest

from rlrun.engine.envs.episode_position import EpisodePosition, EpisodeSeeds
from rlrun.engine.envs.loop_vector_env import LoopVectorEnv
from rlrun.engine.envs.step_marks import (
    StepMarks,
    SteppedEnv,
    SteppedSlot,
    enable_step_marks,
    end_marks,
    keep_marks_at,
    step_mark_location,
    stepped_env,
)

SEEDS = EpisodeSeeds(run_seed=7, worker_index=0)


class Reads(gymnasium.Env[Any, Any]):
    """Reads the notes at each reset and step; episodes have two steps."""

    observation_space: ClassVar[Any] = gymnasium.spaces.Box(-1.0, 1.0, (2,), np.float32)
    action_space: ClassVar[Any] = gymnasium.spaces.Discrete(2)

    def __init__(self, directory: Path, read: list[SteppedEnv | None]) -> None:
        self.directory = directory
        self.read = read

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        self.steps = 0
        self.read.append(stepped_env(self.directory))
        return np.zeros(2, np.float32), {}

    def step(self, action: Any) -> Any:
        self.steps += 1
        self.read.append(stepped_env(self.directory))
        return np.zeros(2, np.float32), 0.0, self.steps == 2, False, {}


def noted(slot: int, episode: int) -> SteppedEnv:
    return SteppedEnv("lab:Reads", (SteppedSlot(slot, episode, SEEDS.seed(slot, episode)),), in_training=True)


@pytest.fixture(autouse=True)
def _no_marks_are_left() -> Iterator[None]:
    yield
    end_marks()


def test_slot_and_episode_are_noted_only_while_the_env_is_reset_or_stepped(
    tmp_path: Path,
) -> None:
    enable_step_marks(tmp_path)
    read: list[SteppedEnv | None] = []
    env = LoopVectorEnv("lab:Reads", [Reads(tmp_path, read) for _ in range(2)], SEEDS)
    assert stepped_env(tmp_path) is None
    env.reset()
    assert stepped_env(tmp_path) is None
    for _ in range(3):  # two steps, and the reset after an episode's end
        env.step(np.zeros(2, np.int64))
        assert stepped_env(tmp_path) is None
    first, second = [noted(0, 0), noted(1, 0)], [noted(0, 1), noted(1, 1)]
    assert read == [*first, *first, *first, *second]
    places = env.places()
    read.clear()
    env.restore(places, [np.zeros(0, np.int64)] * 2, [""] * 2, 60.0)
    assert read[0] == noted(0, 1)
    assert stepped_env(tmp_path) is None
    env.begin([1], [99])
    assert read[-1] is not None
    assert read[-1].slots[0].seed == 99
    assert stepped_env(tmp_path) is None


def test_an_evaluation_episode_is_reported_as_such_and_training_marks_are_kept(tmp_path: Path, wording) -> None:
    enable_step_marks(tmp_path)
    training = StepMarks("lab:Reads", SEEDS, 1)
    StepMarks("lab:Reads", EpisodeSeeds(run_seed=7, worker_index=0, stream=1), 8).begin(5, 2, 33)
    found = stepped_env(tmp_path)
    assert str(found) == wording("lab:Reads", "33")
    StepMarks("lab:Reads", EpisodeSeeds(run_seed=7, worker_index=0, stream=1), 8)
    training.begin(0, 4, 44)
    assert str(stepped_env(tmp_path)) == wording("lab:Reads", "44")


def test_slots_that_are_stepped_together_are_reported_together(tmp_path: Path, wording) -> None:
    enable_step_marks(tmp_path)
    marks = StepMarks("lab:Many", SEEDS, 10, each="world")
    marks.begin_together({world: EpisodePosition(0, 10 + world, 0) for world in range(10)})
    marks.begin_together({1: EpisodePosition(1, 21, 0)})
    told = "; ".join(f"world {world}, episode 0 with seed {10 + world}" for world in range(2, 8))
    first = "world 0, episode 0 with seed 10; world 1, episode 1 with seed 21"
    assert str(stepped_env(tmp_path)) == wording(first, told, "lab:Many")
    marks.rest()
    assert stepped_env(tmp_path) is None


def test_only_a_worker_on_the_trials_machine_writes_its_marks_next_to_those_of_the_trial(
    tmp_path: Path, wording
) -> None:
    enable_step_marks(tmp_path)
    place = step_mark_location()
    assert place is not None
    keep_marks_at(place)  # as the worker's process does
    StepMarks("lab:Reads", EpisodeSeeds(run_seed=7, worker_index=2), 1).begin(0, 4, 44)
    assert str(stepped_env(tmp_path, worker=2)) == wording("lab:Reads", "44")
    assert stepped_env(tmp_path) is None
    end_marks()
    assert list(tmp_path.iterdir()) == []
    keep_marks_at(place._replace(host="elsewhere"))
    assert step_mark_location() is None


def test_a_trial_removes_old_marks_when_it_starts_and_its_own_when_it_ends(tmp_path: Path) -> None:
    enable_step_marks(tmp_path)
    StepMarks("lab:Reads", SEEDS, 1).begin(0, 4, 44)
    enable_step_marks(tmp_path)
    assert stepped_env(tmp_path) is None
    StepMarks("lab:Reads", SEEDS, 1).begin(0, 5, 55)
    end_marks()
    assert list(tmp_path.iterdir()) == []


def test_a_trial_continues_if_marks_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / ".env-steps-0-0+0").mkdir()
    enable_step_marks(tmp_path)
    marks = StepMarks("lab:Reads", SEEDS, 2)
    marks.begin(1, 3, 33)
    assert marks.slot[0] == 1
    assert stepped_env(tmp_path) is None


@pytest.mark.parametrize("content", [b"", b"torn", b"\xff" * 24, b"\x00" * 24, (1 << 62).to_bytes(8, "little") * 9])
def test_a_damaged_mark_is_ignored(tmp_path: Path, content: bytes) -> None:
    (tmp_path / ".env-steps-0-0+0").write_bytes(content)
    assert stepped_env(tmp_path) is None
