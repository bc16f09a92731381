"""The steps that a replay in this process draws: how often, and with which weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.messages.errors import OutOfResources
from rlrun.engine.replay.replay_buffer import ReplayBuffer
from rlrun.engine.replay.replay_config import SAVED_UP_TO_BYTES, ReplayConfig
from tests.rounding import rounding_error


def rewarded_fragment(first: int, length: int, columns: int = 1, ends: tuple[int, ...] = ()) -> SampleBatch:
    """Returns steps whose observations count on from a number, and whose rewards are that number."""
    shape = (length, columns)
    numbers = np.arange(first, first + length + 1, dtype=np.float32)[:, None] + 1000 * np.arange(columns)
    valid, terminateds = np.ones(shape, np.bool_), np.zeros(shape, np.bool_)
    for end in ends:
        terminateds[end] = True
        valid[end + 1 : end + 2] = False
    return SampleBatch(
        obs=numbers[..., None].astype(np.float32),
        actions=np.zeros(shape, np.int64),
        rewards=np.where(valid, numbers[:-1], 0.0),
        terminateds=terminateds,
        truncateds=np.zeros(shape, np.bool_),
        valid=valid,
    )


def with_priorities(batch: SampleBatch, errors: Any) -> SampleBatch:
    """Returns the steps with the given initial priorities."""
    return SampleBatch(batch, priorities=np.asarray(errors, np.float32))


def prioritized(capacity: int, *, n_step: int = 1, **settings: Any) -> ReplayBuffer:
    config = ReplayConfig(capacity=capacity, sampling="prioritized", **settings)
    return ReplayBuffer(config, num_workers=1, n_step=n_step, gamma=0.9, seed=3)


def frequencies(replay: ReplayBuffer, draws: int = 2000) -> dict[float, float]:
    """Returns how often the step from each observation is drawn."""
    numbers = np.concatenate([replay.sample(100, 0)["obs"].ravel() for _ in range(draws // 100)])
    found, counts = np.unique(numbers, return_counts=True)
    return dict(zip(found.tolist(), (counts / len(numbers)).tolist(), strict=True))


@pytest.mark.parametrize("sampling", ["uniform", "prioritized"])
def test_a_minibatch_contains_n_step_transitions_with_all_columns_that_a_learner_needs(sampling: Any) -> None:
    config = ReplayConfig(capacity=50, sampling=sampling)
    replay = ReplayBuffer(config, num_workers=1, n_step=2, gamma=0.5, seed=0)
    assert replay.add(0, rewarded_fragment(10, 8, ends=(3,))) == 7
    batch = replay.sample(32, 0)
    obs = batch["obs"][:, 0, 0]
    assert set(obs) == {10.0, 11.0, 12.0, 13.0, 15.0, 16.0}
    assert {name: column.shape for name, column in batch.items()} == {
        "obs": (32, 1, 1),
        "actions": (32, 1),
        "rewards": (32, 1),
        "discounts": (32, 1),
        "next_obs": (32, 1, 1),
        "valid": (32, 1),
        "weights": (32, 1),
        "indices": (32,),
    }
    ends = obs == 13.0
    assert (batch["rewards"][ends, 0] == 13.0).all()
    assert (batch["rewards"][~ends, 0] == obs[~ends] + 0.5 * (obs[~ends] + 1)).all()
    assert (batch["discounts"][:, 0] == np.where(np.isin(obs, (12.0, 13.0)), 0.0, 0.25)).all()
    assert (batch["next_obs"][:, 0, 0] == obs + np.where(ends, 1, 2)).all()
    assert (batch["weights"] == 1.0).all()
    assert replay.drawn_batches == 1
    assert replay.stored_steps == 7


def test_transitions_returns_each_ready_transition_once_without_counting_a_draw() -> None:
    replay = ReplayBuffer(ReplayConfig(capacity=10), num_workers=1, n_step=1, gamma=0.5, seed=0)
    replay.add(0, rewarded_fragment(0, 6))
    replay.add(0, rewarded_fragment(6, 7, ends=(2,)))
    found = replay.transitions()
    assert sorted(found["obs"][:, 0, 0]) == [4, 5, 6, 7, 8, 10, 11, 12]
    np.testing.assert_array_equal(found["next_obs"], found["obs"] + 1)
    np.testing.assert_array_equal(found["terminateds"], found["obs"][..., 0] == 8)
    assert (np.diff(found["indices"]) > 0).all()
    drawn = replay.peek(200, np.random.default_rng(1))
    assert set(drawn["obs"][:, 0, 0]) == {4, 5, 6, 7, 8, 10, 11, 12}
    assert replay.drawn_batches == 0


def test_new_steps_get_the_largest_priority_so_far() -> None:
    replay = prioritized(100, priority_alpha=1.0, priority_epsilon=1e-9)
    replay.add(0, rewarded_fragment(0, 3))
    assert frequencies(replay) == pytest.approx({0.0: 1 / 3, 1.0: 1 / 3, 2.0: 1 / 3}, abs=0.01)
    replay.update_priorities(np.array([0, 1, 2]), np.array([5.0, 3.0, 0.0], np.float32))
    replay.add(0, rewarded_fragment(3, 1))
    assert frequencies(replay) == pytest.approx({0.0: 5 / 13, 1.0: 3 / 13, 3.0: 5 / 13}, abs=0.01)


def test_errors_delivered_with_steps_become_their_priorities_once_they_are_ready() -> None:
    replay = prioritized(100, n_step=3, priority_alpha=1.0, priority_epsilon=1e-9)
    replay.add(0, with_priorities(rewarded_fragment(0, 3), [[4.0], [2.0], [1.0]]))
    assert frequencies(replay, 100) == {0.0: 1.0}
    replay.add(0, with_priorities(rewarded_fragment(3, 2), [[9.0], [9.0]]))
    assert frequencies(replay) == pytest.approx({0.0: 4 / 7, 1.0: 2 / 7, 2.0: 1 / 7}, abs=0.01)
    replay.add(0, rewarded_fragment(5, 2))
    assert frequencies(replay) == pytest.approx(
        {0.0: 4 / 25, 1.0: 2 / 25, 2.0: 1 / 25, 3.0: 9 / 25, 4.0: 9 / 25}, abs=0.01
    )
    replay.add(0, rewarded_fragment(7, 2))  # steps 5 and 6 come without errors, so they get the largest error so far
    assert frequencies(replay)[6.0] == pytest.approx(9 / 43, abs=0.01)


def test_overwritten_steps_are_neither_drawn_nor_updated() -> None:
    replay = prioritized(10, priority_alpha=1.0)
    replay.add(0, rewarded_fragment(0, 6))
    drawn = replay.sample(50, 0)
    replay.add(0, rewarded_fragment(6, 7))
    assert set(frequencies(replay)) == {4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 11.0, 12.0}
    replay.update_priorities(drawn["indices"], np.full(50, 1e9, np.float32))
    # The index of step 3 now holds the newest observation and no step.
    assert set(frequencies(replay)) <= {4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 11.0, 12.0}
    assert 13.0 not in replay.sample(500, 0)["obs"]


def test_sampling_frequencies_follow_the_priority_exponent() -> None:
    replay = prioritized(1000, priority_alpha=0.6, priority_epsilon=0.01)
    replay.add(0, rewarded_fragment(0, 400))
    errors = np.random.default_rng(0).exponential(1.0, 400).astype(np.float32)
    replay.update_priorities(np.arange(400), errors)
    counts = np.bincount(np.concatenate([replay.sample(50, 0)["indices"] for _ in range(2000)]), minlength=400)
    probabilities = (errors + 0.01) ** 0.6
    expected = probabilities / probabilities.sum() * 100_000
    # Each stratum of the sum of priorities gives one draw, so counts vary less than with independent draws.
    chi_square = ((counts - expected) ** 2 / expected).sum()
    assert chi_square < 399 + 4 * np.sqrt(2 * 399)


def test_each_stratum_of_the_priorities_is_sampled_once() -> None:
    replay = prioritized(100)
    replay.add(0, rewarded_fragment(0, 64))
    for _ in range(5):
        assert sorted(replay.sample(64, 0)["indices"].tolist()) == list(range(64))


def test_importance_weights_correct_the_sampling_frequencies_to_the_degree_given_by_beta() -> None:
    replay = prioritized(100, priority_alpha=0.5, priority_beta=((0, 0.4), (100, 1.0)), priority_epsilon=0.25)
    replay.add(0, rewarded_fragment(0, 20))
    errors = np.random.default_rng(0).exponential(1.0, 20).astype(np.float32)
    replay.update_priorities(np.arange(20), errors)
    powers = (errors.astype(np.float64) + 0.25) ** 0.5
    for env_steps, beta in ((0, 0.4), (50, 0.7), (100, 1.0), (1000, 1.0)):
        batch = replay.sample(8, env_steps)
        weights = (20 * powers[batch["indices"]] / powers.sum()) ** -beta
        np.testing.assert_allclose(batch["weights"][:, 0], weights / weights.max(), rtol=rounding_error(4))


def test_an_error_that_is_not_finite_gets_the_largest_priority() -> None:
    replay = prioritized(100, priority_alpha=1.0, priority_epsilon=1e-9)
    replay.add(0, rewarded_fragment(0, 4))
    replay.update_priorities(np.array([0, 1, 2, 3]), np.array([3.0, 0.0, np.nan, np.inf], np.float32))
    assert frequencies(replay) == pytest.approx({0.0: 3 / 9, 2.0: 3 / 9, 3.0: 3 / 9}, abs=0.01)


@settings(max_examples=20, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    sampling=st.sampled_from(["uniform", "prioritized"]),
    n_step=st.integers(1, 3),
    before=st.integers(0, 12),
    with_errors=st.booleans(),
)
def test_a_restored_replay_buffer_gives_identical_draws(
    seed: int, sampling: Any, n_step: int, before: int, with_errors: bool
) -> None:
    def replay() -> ReplayBuffer:
        config = ReplayConfig(capacity=60, sampling=sampling)
        return ReplayBuffer(config, num_workers=2, n_step=n_step, gamma=0.9, seed=seed)

    def go_on(replay: ReplayBuffer, begin: int, end: int) -> list[SampleBatch]:
        drawn = []
        for i in range(begin, end):
            rng = np.random.default_rng(i)
            new = rewarded_fragment(4 * (i // 2), 4, 2, ends=(i % 3,))
            replay.add(i % 2, with_priorities(new, rng.random((4, 2))) if with_errors else new)
            if replay.num_ready:
                drawn.append(replay.sample(16, i))
                replay.update_priorities(drawn[-1]["indices"], rng.random(16).astype(np.float32))
        return drawn

    one = replay()
    go_on(one, 0, before)
    other = replay()
    other.load_state(one.state())
    for expected, found in zip(go_on(one, before, 20), go_on(other, before, 20), strict=True):
        for name, column in expected.items():
            np.testing.assert_array_equal(found[name], column)
    assert (other.stored_steps, other.drawn_batches) == (one.stored_steps, one.drawn_batches)


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    sampling=st.sampled_from(["uniform", "prioritized"]),
    number=st.integers(1, 5),
    size=st.integers(1, 20),
    ends=st.sets(st.integers(0, 11)),
)
def test_minibatches_drawn_together_equal_those_drawn_one_by_one(
    seed: int, sampling: Any, number: int, size: int, ends: set[int]
) -> None:
    def replay() -> ReplayBuffer:
        config = ReplayConfig(capacity=60, sampling=sampling)
        found = ReplayBuffer(config, num_workers=2, n_step=1, gamma=0.9, seed=seed)
        for worker in (0, 1):
            found.add(worker, rewarded_fragment(0, 12, 2, ends=tuple(sorted(ends))))
        return found

    together, one_by_one = replay(), replay()
    for _ in range(2):
        found = together.sample(size, 7, number)
        expected = [one_by_one.sample(size, 7) for _ in range(number)]
        for name, column in found.items():
            np.testing.assert_array_equal(column, np.concatenate([minibatch[name] for minibatch in expected]))
    assert together.drawn_batches == one_by_one.drawn_batches == 2 * number


def filled(config: ReplayConfig, steps: int = 200) -> ReplayBuffer:
    replay = ReplayBuffer(config, num_workers=1, n_step=1, gamma=0.9, seed=0)
    for first in range(0, steps, 20):
        replay.add(0, rewarded_fragment(first, 20))
    return replay


@pytest.mark.parametrize(("said", "is_saved"), [("auto", True), (True, True), (False, False)])
def test_save_in_checkpoints_decides_whether_the_contents_are_saved(said: Any, is_saved: bool) -> None:
    config = ReplayConfig(capacity=100, save_in_checkpoints=said)
    replay = filled(config)
    replay.sample(8, 0)
    restored = ReplayBuffer(config, num_workers=1, n_step=1, gamma=0.9, seed=0)
    restored.load_state(replay.state())
    assert restored.num_ready == (99 if is_saved else 0)
    assert restored.stored_steps == (200 if is_saved else 0)
    assert restored.drawn_batches == (1 if is_saved else 0)


def test_large_buffers_are_not_saved_by_default() -> None:
    per_step = filled(ReplayConfig(capacity=100)).num_bytes / 100
    most = int(SAVED_UP_TO_BYTES / per_step)
    assert filled(ReplayConfig(capacity=most)).state()["kept"] is not None
    assert filled(ReplayConfig(capacity=most + 100)).state()["kept"] is None


@pytest.mark.parametrize("frame_stack", [None, 3])
def test_a_buffer_on_disk_is_sampled_and_saved_like_one_in_memory(tmp_path: Path, frame_stack: int | None) -> None:
    def go_on(replay: ReplayBuffer, first: int) -> None:
        for i in range(first, first + 120, 10):
            steps = rewarded_fragment(i, 10)
            numbers = steps["obs"][..., None, None] - np.arange(2, -1, -1).reshape(1, 1, 3, 1, 1)
            replay.add(0, SampleBatch(steps, obs=numbers.astype(np.float32)))

    in_memory = ReplayConfig(capacity=100, frame_stack=frame_stack)
    on_disk = in_memory.replace(on_disk=str(tmp_path / "replay"))
    replays = [ReplayBuffer(config, num_workers=1, n_step=2, gamma=0.9, seed=0) for config in (in_memory, on_disk)]
    for replay in replays:
        go_on(replay, 0)
    restored = ReplayBuffer(on_disk, num_workers=1, n_step=2, gamma=0.9, seed=0)
    restored.load_state(replays[1].state())
    for replay in (*replays, restored):
        go_on(replay, 120)
    expected, *others = (replay.sample(100, 0) for replay in (*replays, restored))
    for found in others:
        for name, column in expected.items():
            np.testing.assert_array_equal(found[name], column)
    assert list((tmp_path / "replay").iterdir()) == []


def test_insufficient_disk_space_is_reported_when_the_first_steps_are_stored(tmp_path: Path) -> None:
    config = ReplayConfig(capacity=10**13, on_disk=str(tmp_path))
    with pytest.raises(OutOfResources, match=str(tmp_path)):
        filled(config, 20)


def test_sampling_frequencies_and_importance_weights_agree_with_cpprb() -> None:
    cpprb = pytest.importorskip("cpprb")
    errors = np.random.default_rng(0).exponential(1.0, 500).astype(np.float32)
    theirs = cpprb.PrioritizedReplayBuffer(512, {"obs": {}}, alpha=0.6, eps=0.01)
    theirs.add(obs=np.arange(500), priorities=errors)
    ours = prioritized(512, priority_alpha=0.6, priority_beta=0.7, priority_epsilon=0.01)
    ours.add(0, rewarded_fragment(0, 500))
    ours.update_priorities(np.arange(500), errors)
    counts, their_weights = np.zeros((2, 500)), np.zeros(500)
    for _ in range(1000):
        batch, sample = ours.sample(100, 0), theirs.sample(100, 0.7)
        counts += [np.bincount(batch["indices"], minlength=500), np.bincount(sample["indexes"], minlength=500)]
        # Their weights are normalized by the largest of all weights, ours by the largest in the minibatch.
        their_weights[sample["indexes"]] = sample["weights"]
    powers = (errors + 0.01) ** 0.6
    expected = powers / powers.sum() * 100_000
    for side in counts:
        assert ((side - expected) ** 2 / expected).sum() < 499 + 4 * np.sqrt(2 * 499)
    batch = ours.sample(100, 0)
    ratios = batch["weights"][:, 0] / their_weights[batch["indices"]]
    np.testing.assert_allclose(ratios, ratios[0], rtol=rounding_error(500))
