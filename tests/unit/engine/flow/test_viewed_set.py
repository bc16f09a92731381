"""Views of recorded episodes equal the views with which the policy acted, bit for bit."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium.spaces import Box

from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.data.tree import map_tree, named_leaves
from rlrun.engine.data.views import VIEW_FRAMES, VIEW_PREV_ACTIONS, VIEW_PREV_REWARDS, viewed
from rlrun.engine.datasets.data_set import DataSet
from rlrun.engine.datasets.layout import LOGP, LOGP_FORM
from rlrun.engine.datasets.transitions import Sequences, Steps, Transitions
from rlrun.engine.datasets.writer import SetWriter
from rlrun.engine.flow.sources.data_minibatches import ViewedSet
from rlrun.engine.policy.actor_critic import ActorCriticPolicy
from rlrun.engine.replay.ring import ReplayRing
from rlrun.engine.rollout.rollout_worker import RolloutWorker
from tests.unit.engine.rollout.test_views import NONE, ShortChoices, ShortEpisodes, policy_of, worker_of

FRAGMENTS = 12


class ShortFilms(ShortEpisodes):
    """Pictures with a single frame."""

    observation_space = Box(0, 255, (36, 36, 1), np.uint8)

    def shown(self) -> Any:
        return self.np_random.integers(0, 256, (36, 36, 1), np.uint8)


def fragments_and_set(
    folder: Path, policy: ActorCriticPolicy, env: type[ShortEpisodes]
) -> tuple[list[SampleBatch], ViewedSet]:
    """Fragments of one env slot, and the data set recorded along with them, with episodes in three files."""
    config = worker_of(policy, 7, env).config
    worker = RolloutWorker(replace(config, num_envs=1, records=True))
    batches, spaces = [], (env.observation_space, env.action_space)
    with SetWriter(folder, *spaces, further={LOGP: LOGP_FORM}, episodes_per_file=10) as writer:
        for _ in range(FRAGMENTS):
            rollout = worker.sample()
            batches.append(rollout.batches["default"])
            for slot, rows, agent, begins in rollout.raw["default"].streams():
                writer.add(str(slot), rows, agent=agent, begins=begins)
    assert len(list(folder.glob("*.arrow"))) > 1
    return batches, ViewedSet(DataSet(folder), policy.leaves, policy.behavior().action_space)


def test_views_of_a_data_set_share_its_open_files(tmp_path: Path) -> None:
    policy = policy_of(ShortEpisodes, views={"prev_rewards": 1})
    fragments_and_set(tmp_path / "set", policy, ShortEpisodes)
    data = DataSet(tmp_path / "set")
    columns = data.file(0)
    assert ViewedSet(data, policy.leaves, policy.behavior().action_space).file(0) is columns


def assert_equal(found: Any, expected: Any) -> None:
    for (name, mine), (_, other) in zip(named_leaves(found), named_leaves(expected), strict=True):
        np.testing.assert_array_equal(mine, other, err_msg=name)
        assert mine.dtype == other.dtype, name


@pytest.mark.parametrize("env", [ShortEpisodes, ShortChoices, ShortFilms])
@pytest.mark.parametrize("views", [{"prev_actions": 2, "prev_rewards": 3, "obs": 4}, {"prev_rewards": 1}])
def test_views_of_a_data_set_equal_those_seen_while_it_was_recorded(
    tmp_path: Path, env: type[ShortEpisodes], views: dict[str, int]
) -> None:
    batches, data = fragments_and_set(tmp_path / "set", policy_of(env, views=views), env)
    steps = [batch["valid"].astype(bool) for batch in batches]
    shown = [viewed(batch)["obs"] for batch in batches]
    expected = map_tree(
        lambda *parts: np.concatenate([part[:-1][own] for part, own in zip(parts, steps, strict=True)]), *shown
    )
    following = map_tree(
        lambda *parts: np.concatenate([part[1:][own] for part, own in zip(parts, steps, strict=True)]), *shown
    )
    items = np.arange(data.num_steps)
    found = Transitions(data, gamma=0.9).gather(items)
    assert_equal(map_tree(lambda leaf: leaf[:, 0], found["obs"]), expected)
    assert_equal(map_tree(lambda leaf: leaf[:, 0], found["next_obs"]), following)
    assert_equal(Steps(data).gather(items)["obs"], found["obs"])


@pytest.mark.parametrize("n_step", [1, 3])
def test_views_of_a_data_set_equal_those_of_a_replay_buffer_filled_by_the_same_run(tmp_path: Path, n_step: int) -> None:
    batches, data = fragments_and_set(tmp_path / "set", policy_of(), ShortEpisodes)
    ring = ReplayRing(1000, 1, n_step, 0.9)
    for batch in batches:
        ring.insert(0, batch)
    kept = ring.gather(ring.ready.indices())
    found = Transitions(data, gamma=0.9, n_step=n_step).gather(np.arange(len(kept["valid"])))
    assert len(kept["valid"]) > data.num_steps - n_step
    for name in ("obs", "next_obs", "actions"):
        assert_equal(found[name], kept[name])


def test_views_in_sequences_are_padded_at_episode_starts_and_never_cross_episode_ends(
    tmp_path: Path,
) -> None:
    _, data = fragments_and_set(tmp_path / "set", policy_of(), ShortEpisodes)
    sequences = Sequences(data, length=2, burn_in=1)
    batch = sequences.gather(np.arange(len(sequences)))
    plain = data.rows(np.arange(data.num_rows), ("rewards", "actions"))
    located = sequences.located(np.arange(len(sequences)))
    assert located.is_step.sum() > 60
    for sequence, place in zip(*located.is_step.nonzero(), strict=True):
        row, step = located.rows[sequence, place], located.steps[sequence, place]
        seen = {name: part[sequence, place] for name, part in batch["obs"].items()}
        frames = data.rows(np.arange(row - min(step, 3), row + 1), ("obs",))["obs"][VIEW_FRAMES][:, -1]
        assert_equal(seen[VIEW_FRAMES], np.concatenate([np.zeros((4 - len(frames), 2), np.float32), frames]))
        actions = plain["actions"][row - min(step, 2) : row]
        assert seen[VIEW_PREV_ACTIONS].tolist() == [*[NONE] * (2 - len(actions)), *actions.tolist()]
        rewards = plain["rewards"][row - min(step, 3) : row].astype(np.float32)
        assert seen[VIEW_PREV_REWARDS].tolist() == [*[0.0] * (3 - len(rewards)), *rewards.tolist()]
    assert not any(leaf[~located.is_step].any() for leaf in batch["obs"].values())
