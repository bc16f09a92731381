"""Views from replays: each observation is stored once, and drawn views equal those seen, even next observations."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.data.tree import leaves, map_tree, named_leaves
from rlrun.engine.data.views import VIEW_FRAMES, VIEW_PREV_ACTIONS, VIEW_PREV_REWARDS, viewed
from rlrun.engine.replay.frame_store import FrameStore
from rlrun.engine.replay.replay_buffer import ReplayBuffer
from rlrun.engine.replay.replay_config import ReplayConfig, SequenceReplayConfig
from rlrun.engine.replay.sequences import SequenceReplay
from tests.unit.engine.rollout.test_slot_recorder import fragments, lives, slot_recorder
from tests.unit.engine.rollout.test_views import fragments_of, policy_of

LENGTH, CAPACITY = 7, 150
"""Three env slots: after 16 fragments, the ring of 50 rows has wrapped twice."""


def seen_in(batches: list[SampleBatch]) -> dict[bytes, list[Any]]:
    """Returns the views of all observations by the newest frame.

    All frames are unique, but if an agent ends without a final observation, its last frame is shown again.
    """
    found: dict[bytes, list[Any]] = {}
    for batch in batches:
        tree, shown = viewed(batch)["obs"], batch["episode_steps"] >= 0
        for t, slot in np.argwhere(shown):
            key = tree[VIEW_FRAMES][t, slot, -1].tobytes()
            found.setdefault(key, []).append(map_tree(lambda leaf, t=t, slot=slot: leaf[t, slot], tree))
    return found


def assert_seen(expected: dict[bytes, list[Any]], tree: Any, where: np.ndarray) -> None:
    for index in np.argwhere(where):
        own = map_tree(lambda leaf, index=tuple(index): leaf[index], tree)
        told = expected[own[VIEW_FRAMES][-1].tobytes()]
        assert any(all(map(np.array_equal, leaves(before), leaves(own))) for before in told)


@pytest.mark.parametrize("n_step", [1, 3])
def test_views_in_transitions_equal_those_the_policy_saw_even_across_the_end_of_the_ring(n_step: int) -> None:
    batches = fragments_of(policy_of(), LENGTH, 16)
    replay = ReplayBuffer(ReplayConfig(capacity=CAPACITY), num_workers=1, n_step=n_step, gamma=0.9, seed=0)
    expected = seen_in(batches)
    for batch in batches:
        replay.add(0, batch)
        drawn = replay.sample(64, 0)
        assert_seen(expected, drawn["obs"], drawn["valid"])
        assert_seen(expected, drawn["next_obs"], drawn["valid"])
        starts = (drawn["obs"][VIEW_FRAMES][:, 0, :-1] == 0).all(axis=(1, 2))
        assert (drawn["obs"][VIEW_PREV_ACTIONS][starts] == 3).all()
        assert not drawn["obs"][VIEW_PREV_REWARDS][starts].any()


def test_a_buffer_of_views_stores_each_observation_once_and_continues_when_restored() -> None:
    batches = fragments_of(policy_of(), LENGTH, 10)
    first, second = (
        ReplayBuffer(ReplayConfig(capacity=CAPACITY), num_workers=1, n_step=1, gamma=0.9, seed=0) for _ in range(2)
    )
    for batch in batches[:8]:
        first.add(0, batch)
    (store,) = leaves(first._ring.stores["obs"][VIEW_FRAMES])
    assert isinstance(store, FrameStore)
    assert store._frames.shape == (1, 50, 3, 2)
    second.load_state(first.state())
    for replay in (first, second):
        for batch in batches[8:]:
            replay.add(0, batch)
    for (name, left), (_, right) in zip(
        named_leaves(dict(first.sample(40, 0))), named_leaves(dict(second.sample(40, 0))), strict=True
    ):
        np.testing.assert_array_equal(left, right, err_msg=name)


def test_views_from_a_replaced_worker_do_not_include_earlier_observations() -> None:
    policy = policy_of()
    replay = ReplayBuffer(ReplayConfig(capacity=CAPACITY), num_workers=1, n_step=1, gamma=0.9, seed=0)
    late = fragments_of(policy, LENGTH, 6)
    expected = seen_in(late)
    for batch in [*late[:3], late[5]]:  # the last one begins in mid-episode, and the replay lacks what came before
        replay.add(0, batch)
    for _ in range(5):
        drawn = replay.sample(64, 0)
        assert_seen(expected, drawn["obs"], drawn["valid"])
        assert_seen(expected, drawn["next_obs"], drawn["valid"])


def test_views_in_sequences_equal_those_the_policy_saw() -> None:
    batches = fragments_of(policy_of(core="lstm"), LENGTH, 16)
    expected = seen_in(batches)
    config = SequenceReplayConfig(capacity=CAPACITY, length=6, burn_in=3, stride=3)
    replay = SequenceReplay(config, num_workers=1, n_step=2, gamma=0.9, seed=0)
    for batch in batches:
        replay.add(0, batch)
    drawn = replay.sample(40, 0)
    newest = drawn["obs"][VIEW_FRAMES][..., -1, :]
    shown = newest.any(axis=-1)
    assert shown.sum() > 300
    assert_seen(expected, drawn["obs"], shown)


@pytest.mark.parametrize("clock", ["parallel", "per_agent"])
def test_views_are_correct_for_agents_that_are_born_and_die_in_the_same_slots(clock: str) -> None:
    _, worlds = lives(clock)
    batches = [own.batches["default"] for own in fragments(slot_recorder(worlds, LENGTH, "views"), LENGTH, 20)]
    expected = seen_in(batches)
    replay = ReplayBuffer(ReplayConfig(capacity=2_000), num_workers=1, n_step=1, gamma=0.9, seed=0)
    for batch in batches:
        replay.add(0, batch)
        drawn = replay.sample(40, 0)
        goes_on = drawn["discounts"] > 0
        assert_seen(expected, drawn["obs"], drawn["valid"])
        assert_seen(expected, drawn["next_obs"], drawn["valid"] & goes_on)
