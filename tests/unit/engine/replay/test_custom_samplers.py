"""A custom sampler chooses the rows of a replay; the example sampler emphasizes recent experience."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.messages.errors import SpecError, UsageError
from rlrun.engine.replay import replay_buffer
from rlrun.engine.replay.replay_buffer import ReplayBuffer
from rlrun.engine.replay.replay_config import ReplayConfig, SequenceReplayConfig
from rlrun.engine.replay.row_sampler import Rows, RowSampler
from rlrun.engine.replay.samplers import sampler_of
from rlrun.engine.replay.sequences import SequenceReplay
from rlrun.engine.replay.stores import Indices
from rlrun.experiments.spec.load import parse_experiments
from tests.wording import Wording

RECENT = "my_lab.emphasized:EmphasizedRecent"
SETTINGS = {"updates": 5, "anneal_steps": 1000, "eta": 0.9985, "at_least": 12}


@pytest.fixture(autouse=True)
def _lab(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).resolve().parents[4] / "examples"))


def steps(first: int, length: int) -> SampleBatch:
    """Steps of two env slots, numbered in order."""
    numbers = first + np.arange(2 * (length + 1)).reshape(length + 1, 2)
    zeros = np.zeros((length, 2))
    return SampleBatch(
        obs=numbers[..., None].astype(np.float32),
        actions=zeros.astype(np.int64),
        rewards=zeros.astype(np.float32),
        terminateds=zeros.astype(np.bool_),
        truncateds=zeros.astype(np.bool_),
        valid=np.ones((length, 2), np.bool_),
        state=np.zeros((length, 2, 1), np.float32),
        episode_starts=zeros.astype(np.bool_),
    )


def replay_of(capacity: int = 60) -> ReplayBuffer:
    config = ReplayConfig.parse({"capacity": capacity, "sampling": {RECENT: SETTINGS}})
    return ReplayBuffer(config, num_workers=1, n_step=1, gamma=0.9, seed=0)


def newest(present: list[int], k: int, env_steps: int) -> list[int]:
    """The oracle: rows of minibatch k by equation 1 of arXiv:1906.04009, newest last."""
    eta = 0.9985 + (1.0 - 0.9985) * env_steps / 1000
    c_k = max(len(present) * eta ** (k * 1000 / 5), 12)
    return present[-min(int(c_k), len(present)) :]


def test_the_kth_minibatch_is_drawn_from_as_many_of_the_newest_steps_as_the_paper_says() -> None:
    replay = replay_of()
    for first in range(0, 100, 10):
        replay.add(0, steps(first, 5))
        present = sorted(replay.transitions()["obs"][:, 0, 0].astype(int).tolist())
        for k, env_steps in enumerate((0, 0, 500, 500, 1000), 1):
            drawn = replay.sample(2000, env_steps)["obs"][:, 0, 0].astype(int).tolist()
            assert sorted(set(drawn)) == newest(present, k, env_steps)
    assert len(present) == 58


def test_draws_made_singly_together_or_after_a_resume_are_the_same() -> None:
    one_by_one, together, resumed = replay_of(), replay_of(), replay_of()
    for replay in (one_by_one, together):
        for first in range(0, 80, 10):
            replay.add(0, steps(first, 5))
    alone = [one_by_one.sample(8, 0)["indices"] for _ in range(3)]
    np.testing.assert_array_equal(np.concatenate(alone), together.sample(8, 0, number=3)["indices"])
    resumed.load_state(one_by_one.state())
    np.testing.assert_array_equal(resumed.sample(64, 0)["indices"], together.sample(64, 0)["indices"])


class Wrong(RowSampler):
    """Sampler that draws wrong indices, given in its settings."""

    def __init__(self, rows: Rows, *, indices: list[int]) -> None:
        self._indices = indices

    def add(self, indices: Indices, priorities: Any) -> None: ...

    def remove(self, indices: Indices) -> None: ...

    def draw(self, generator: np.random.Generator, batch_size: int, number: int, env_steps: int) -> Any:
        return np.array(self._indices), np.ones(len(self._indices))


@pytest.mark.parametrize("indices", [[0, -1], [0, 10**6], [0, 1, 2]])
def test_out_of_range_indices_are_refused_before_kernels_read_memory(
    indices: list[int], monkeypatch: pytest.MonkeyPatch, wording: Wording
) -> None:
    monkeypatch.setattr(replay_buffer, "make_sampler", lambda _, rows: Wrong(rows, indices=indices))
    replay = replay_of()
    replay.add(0, steps(0, 5))
    with wording.raised(ValueError):
        replay.sample(2, 0)


def test_a_custom_sampler_can_also_choose_sequences() -> None:
    settings = {"capacity": 80, "sampling": {RECENT: {**SETTINGS, "at_least": 2, "eta": 0.9}}}
    config = SequenceReplayConfig.parse({**settings, "length": 2, "burn_in": 1, "stride": 1})
    replay = SequenceReplay(config, num_workers=1, n_step=1, gamma=0.9, seed=0)
    for first in range(0, 60, 10):
        replay.add(0, steps(first, 5))
    firsts = replay.sample(200, 0)["obs"][:, 0, 0]
    assert sorted(set(firsts.astype(int).tolist())) == [54, 55]  # the newest sequence of each slot


class WithoutDraw(RowSampler):
    def add(self, indices: Any, priorities: Any) -> None:
        pass

    def remove(self, indices: Any) -> None:
        pass


@pytest.mark.parametrize(
    ("sampling", "name"),
    [
        ("my_lab.nothing:Sampler", "my_lab.nothing"),
        ("my_lab.room:Room", "rlrun.plugin.RowSampler"),
        (f"{__name__}:WithoutDraw", "draw"),
        ({RECENT: {"update": 5}}, "updates"),
    ],
    ids=["module", "class", "method", "setting"],
)
def test_objects_that_are_not_samplers_are_refused(sampling: Any, name: str, wording: Wording) -> None:
    with wording.raised(UsageError, name):
        sampler_of(ReplayConfig.parse({"sampling": sampling}))


def test_a_mistake_in_a_sampler_is_found_when_the_spec_is_read(wording: Wording) -> None:
    spec = {
        "algorithm": "dqn",
        "env": "CartPole-v1",
        "stop": {"env_steps": 1000},
        "config": {"replay": {"sampling": "my_lab.room:Room"}},
    }
    with wording.raised(SpecError, "try.config.replay.sampling", "my_lab.room:Room"):
        parse_experiments({"try": spec})


def test_two_samplers_for_one_replay_are_refused(wording: Wording) -> None:
    with wording.raised(SpecError, "sampling", 2):
        ReplayConfig.parse({"sampling": {RECENT: {}, "my_lab.room:Room": {}}})
