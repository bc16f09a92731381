"""The same rules on every backend: rows after an end, flags, seeds, spaces, and returns into an episode."""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.envs.classic_control.cartpole import CartPoleVectorEnv
from numpy.typing import NDArray

from rlrun.engine.data.tree import leaves, map_tree, named_leaves
from rlrun.engine.envs.backend import backend_of
from rlrun.engine.envs.env_config import EnvConfig
from rlrun.engine.envs.episode_position import EpisodePosition, EpisodeSeeds
from rlrun.engine.envs.make import make_env, make_vector_env, spaces_of
from rlrun.engine.envs.spaces import mismatch
from rlrun.engine.envs.vector_env import VectorEnv, observation_hash
from rlrun.engine.messages.errors import UsageError

SLOTS = 3
SEEDS = EpisodeSeeds(run_seed=5, worker_index=2)

gymnasium.register("rlrun-tests/WholeCartPole-v0", vector_entry_point=CartPoleVectorEnv, max_episode_steps=30)


@dataclass(frozen=True, eq=False)
class Case:
    """An env, how long to play it (several episodes in each env slot), and at how many random points to stop."""

    backend: str
    env: dict[str, Any]
    steps: int = 70
    random_points: int = 4


CASES = {
    "cartpole": Case("cartpole", {"id": "CartPole-v1"}, 150),
    "cartpole-truncated": Case("cartpole", {"id": "CartPole-v1", "max_episode_steps": 12}),
    "cartpole-sutton-barto": Case("cartpole", {"id": "CartPole-v1", "kwargs": {"sutton_barto_reward": True}}),
    "cartpole-v0": Case("cartpole", {"id": "CartPole-v0"}),
    "cartpole-loop": Case("loop", {"id": "CartPole-v1", "backend": "loop"}, 150),
    "cartpole-viewed": Case(
        "cartpole",
        {"id": "CartPole-v1", "wrappers": [{"id": "rlrun.plugin:PartialView", "kwargs": {"numbers": [2, 0]}}]},
    ),
    "cartpole-wrapped": Case("loop", {"id": "CartPole-v1", "wrappers": ["TimeAwareObservation"]}),
    "pendulum": Case("loop", {"id": "Pendulum-v1", "max_episode_steps": 15}),
    "mountain-car": Case("loop", {"id": "MountainCar-v0", "max_episode_steps": 20}),
    "frozen-lake": Case("loop", {"id": "FrozenLake-v1"}),
    "blackjack": Case("loop", {"id": "Blackjack-v1"}),
    "inverted-pendulum": Case("loop", {"id": "InvertedPendulum-v5"}),
    "half-cheetah": Case("loop", {"id": "HalfCheetah-v5", "max_episode_steps": 15}),
    "lunar-lander": Case("loop", {"id": "LunarLander-v3"}, 250),
    "dict": Case("loop", {"id": "rlrun.toys:DictCartPole"}),
    "nested-tuple": Case("loop", {"id": "rlrun.toys:NestedTuple"}),
    "multi-discrete": Case("loop", {"id": "rlrun.toys:MultiDiscreteMatch"}),
    "multi-binary": Case("loop", {"id": "rlrun.toys:MultiBinaryMatch"}),
    "asymmetric-box": Case("loop", {"id": "rlrun.toys:AsymmetricBox"}, 20),
    "offset-actions": Case(
        "loop", {"id": "rlrun.toys:ActionReward", "kwargs": {"num_actions": 3, "first_action": 5}}, 20
    ),
    "truncate-only": Case("loop", {"id": "rlrun.toys:ConstantReward", "kwargs": {"episode_len": 9}}),
    "pong": Case("atari", {"id": "ALE/Pong-v5", "kwargs": {"noop_max": 5}, "max_episode_steps": 5}, 14, 1),
}
"""Envs whose env slots are seeded one by one; they follow all of the rules."""

WHOLE = {
    "gymnasium": Case("gymnasium", {"id": "rlrun-tests/WholeCartPole-v0"}),
    "atari-lives": Case(
        "atari", {"id": "ALE/Breakout-v5", "kwargs": {"noop_max": 5, "episodic_life": True, "frameskip": 24}}, 50
    ),
}
"""Envs that are seeded as a whole, or whose episodes begin where the last one ended; they restart."""
if importlib.util.find_spec("envpool"):
    WHOLE["envpool-cartpole"] = Case("envpool", {"id": "CartPole-v1", "backend": "envpool"})
    WHOLE["envpool-pendulum"] = Case("envpool", {"id": "Pendulum-v1", "backend": "envpool", "max_episode_steps": 9})
    WHOLE["envpool-pong"] = Case("envpool", {"id": "ALE/Pong-v5", "backend": "envpool", "max_episode_steps": 9})

seeded = pytest.mark.parametrize("case", CASES.values(), ids=CASES)
seeded_but_pictures = pytest.mark.parametrize(
    "case",
    [pytest.param(case, id=name, marks=[pytest.mark.regress] * (name == "pong")) for name, case in CASES.items()],
)
"""Envs with pictures take seconds; other tests begin chosen episodes in them, restore places, and compare rows."""
whole = pytest.mark.parametrize("case", WHOLE.values(), ids=WHOLE)
every = pytest.mark.parametrize("case", (CASES | WHOLE).values(), ids=CASES | WHOLE)


@dataclass
class Recorded:
    """A stretch of experience: `observations` and `places` have one more row than the rest."""

    observations: list[Any]
    places: list[list[EpisodePosition]]
    actions: list[Any]
    rewards: NDArray[np.float64]
    terminateds: NDArray[np.bool_]
    truncateds: NDArray[np.bool_]

    @property
    def ends(self) -> NDArray[np.bool_]:
        return self.terminateds | self.truncateds

    @property
    def begins(self) -> NDArray[np.bool_]:
        """Whether a step began an episode."""
        return np.concatenate([np.zeros((1, SLOTS), dtype=bool), self.ends[:-1]])


@contextmanager
def opened(case: Case, seeds: EpisodeSeeds = SEEDS, **options: Any) -> Iterator[VectorEnv]:
    env = make_vector_env(EnvConfig.parse(case.env), SLOTS, seeds, **options)
    try:
        yield env
    finally:
        env.close()


def copied(tree: Any) -> Any:
    return map_tree(np.copy, tree)


def slot_of(tree: Any, slot: int) -> Any:
    return map_tree(lambda leaf: leaf[slot], tree)


def same(one: Any, other: Any) -> bool:
    return observation_hash(one) == observation_hash(other)


def random_actions(env: VectorEnv, steps: int, seed: int = 0) -> list[Any]:
    """Draws batches of actions, each env slot's from the env's action space."""
    env.action_space.seed(seed)
    dtype = env.action_space.dtype
    return [np.array([env.action_space.sample() for _ in range(SLOTS)], dtype) for _ in range(steps)]


def play(env: VectorEnv, first: Any, actions: Sequence[Any]) -> Recorded:
    observations, places, steps = [copied(first)], [env.places()], []
    for action in actions:
        observation, *step, _ = env.step(action)
        observations.append(copied(observation))
        places.append(env.places())
        steps.append([np.copy(part) for part in step])
    rewards, terminateds, truncateds = (np.array(part) for part in zip(*steps, strict=True))
    return Recorded(observations, places, list(actions), rewards, terminateds, truncateds)


@functools.cache
def recorded(case: Case) -> Recorded:
    return record(case)


def record(case: Case) -> Recorded:
    with opened(case) as env:
        return play(env, env.reset(), random_actions(env, case.steps))


@every
def test_every_case_runs_on_the_backend_it_names(case: Case) -> None:
    with opened(case) as env:
        assert env.name == backend_of(EnvConfig.parse(case.env)) == case.backend
        assert env.num_envs == SLOTS


@every
def test_results_have_the_promised_shapes_and_dtypes_and_observations_lie_in_their_space(case: Case) -> None:
    stretch = recorded(case)
    space, _ = spaces_of(EnvConfig.parse(case.env))
    expected = {name: np.asarray(leaf).dtype for name, leaf in named_leaves(space.sample())}
    for observations in stretch.observations:
        assert {name: leaf.dtype for name, leaf in named_leaves(observations)} == expected
        for slot in range(SLOTS):
            assert mismatch(space, slot_of(observations, slot)) is None
    assert stretch.rewards.dtype == np.float64
    assert stretch.terminateds.dtype == stretch.truncateds.dtype == np.bool_
    assert stretch.rewards.shape == stretch.terminateds.shape == (case.steps, SLOTS)
    assert stretch.ends.any(axis=0).all(), "the case is too short to show anything"


@every
def test_the_row_after_an_episode_end_has_zero_reward_and_no_end_flags(case: Case) -> None:
    stretch = recorded(case)
    assert not stretch.rewards[stretch.begins].any()
    assert not stretch.ends[stretch.begins].any()


@every
def test_a_slots_position_counts_its_episodes_and_the_actions_since_its_last_reset(case: Case) -> None:
    stretch = recorded(case)
    for step, begins in enumerate(stretch.begins):
        for slot in range(SLOTS):
            before, after = stretch.places[step][slot], stretch.places[step + 1][slot]
            expected = (before.episode + 1, 0) if begins[slot] else (before.episode, before.length + 1)
            assert (after.episode, after.length) == expected
            assert after.seed == SEEDS.seed(slot, after.episode)


@every
def test_the_same_seeds_and_actions_reproduce_the_same_steps(case: Case) -> None:
    one, other = recorded(case), record(case)
    assert all(same(a, b) for a, b in zip(one.observations, other.observations, strict=True))
    np.testing.assert_array_equal(one.rewards, other.rewards)
    np.testing.assert_array_equal(one.ends, other.ends)


@seeded_but_pictures
def test_the_action_given_in_the_row_after_an_episode_end_is_ignored(case: Case) -> None:
    stretch = recorded(case)
    with opened(case) as env:
        others = random_actions(env, case.steps, seed=1)
        mixed = [
            np.where(begins.reshape(-1, *[1] * (taken.ndim - 1)), other, taken)
            for taken, other, begins in zip(stretch.actions, others, stretch.begins, strict=True)
        ]
        again = play(env, env.reset(), mixed)
    assert all(same(a, b) for a, b in zip(stretch.observations, again.observations, strict=True))
    np.testing.assert_array_equal(stretch.rewards, again.rewards)


@seeded
def test_every_slot_behaves_like_a_single_env_given_the_slots_seeds_and_actions(case: Case) -> None:
    stretch = recorded(case)
    single = make_env(EnvConfig.parse(case.env))
    for slot in range(SLOTS):
        for step in range(case.steps + 1):
            place = stretch.places[step][slot]
            if place.length == 0:
                observation, _ = single.reset(seed=place.seed)
                outcome = (0.0, False, False)
            else:
                action = slot_of(stretch.actions[step - 1], slot)
                observation, *result, _ = single.step(action)
                outcome = (float(result[0]), bool(result[1]), bool(result[2]))
            saved = slot_of(stretch.observations[step], slot)
            assert same(map_tree(lambda leaf, got: np.asarray(got, leaf.dtype), saved, observation), saved)
            if step:
                rewards, terminateds, truncateds = stretch.rewards, stretch.terminateds, stretch.truncateds
                assert outcome == tuple(part[step - 1, slot] for part in (rewards, terminateds, truncateds))
    single.close()


@every
def test_each_slot_starts_at_its_given_episode_number_with_the_seed_of_that_episode(case: Case) -> None:
    with opened(case, first_episodes=[0, 7, 40]) as env:
        env.reset()
        assert [place.episode for place in env.places()] == [0, 7, 40]
        assert [place.seed for place in env.places()] == [SEEDS.seed(0, 0), SEEDS.seed(1, 7), SEEDS.seed(2, 40)]


def saved_at(stretch: Recorded, step: int) -> tuple[list[EpisodePosition], list[Any], list[str]]:
    """Returns what a worker saves after some steps: places, actions since each reset, hashes."""
    places = stretch.places[step]
    actions = [
        map_tree(lambda leaf, slot=slot: leaf[:, slot], np.array(stretch.actions[step - place.length : step]))
        if place.length
        else np.zeros((0, *stretch.actions[0].shape[1:]), stretch.actions[0].dtype)
        for slot, place in enumerate(places)
    ]
    hashes = [observation_hash(slot_of(stretch.observations[step], slot)) for slot in range(SLOTS)]
    return places, actions, hashes


def kill_points(stretch: Recorded, random_points: int = 4) -> list[int]:
    """Chooses where to stop: at the start, right after ends, right at first rows, and at random."""
    ends = np.flatnonzero(stretch.ends.any(axis=1))[: max(1, random_points - 1)] + 1
    chosen = {0, *ends.tolist(), *(ends + 1).tolist()}
    chosen |= set(np.random.default_rng(0).integers(1, len(stretch.actions), random_points).tolist())
    return sorted(step for step in chosen if step < len(stretch.actions))


@seeded_but_pictures
def test_a_restored_env_continues_exactly_from_any_step(case: Case) -> None:
    stretch = recorded(case)
    for step in kill_points(stretch, case.random_points):
        with opened(case) as env:
            observations, exact = env.restore(*saved_at(stretch, step), max_replay_s=60.0)
            assert exact == [True] * SLOTS
            assert same(observations, stretch.observations[step])
            assert env.places() == stretch.places[step]
            again = play(env, observations, stretch.actions[step : step + 20])
        expected = stretch.observations[step : step + 21]
        assert all(same(a, b) for a, b in zip(again.observations, expected, strict=True))
        np.testing.assert_array_equal(again.rewards, stretch.rewards[step : step + 20])
        np.testing.assert_array_equal(again.terminateds, stretch.terminateds[step : step + 20])
        np.testing.assert_array_equal(again.truncateds, stretch.truncateds[step : step + 20])
        assert again.places == stretch.places[step : step + 21]


@seeded
def test_an_env_that_has_already_been_stepped_is_restored_exactly(case: Case) -> None:
    stretch = recorded(case)
    step = kill_points(stretch)[-1]
    with opened(case) as env:
        play(env, env.reset(), random_actions(env, 17, seed=3))
        observations, exact = env.restore(*saved_at(stretch, step), max_replay_s=60.0)
        assert exact == [True] * SLOTS
        again = play(env, observations, stretch.actions[step : step + 20])
    assert all(same(a, b) for a, b in zip(again.observations, stretch.observations[step:], strict=False))


@seeded
def test_a_slot_restored_to_another_observation_begins_its_next_episode_and_is_reported(case: Case) -> None:
    stretch = recorded(case)
    step = kill_points(stretch)[-1]
    places, actions, hashes = saved_at(stretch, step)
    hashes[1] = "0" * 32
    with opened(case) as env:
        observations, exact = env.restore(places, actions, hashes, max_replay_s=60.0)
        assert exact == [True, False, True]
        next_episode = places[1].episode + 1
        assert env.places() == [places[0], EpisodePosition(next_episode, SEEDS.seed(1, next_episode), 0), places[2]]
        first, _ = make_env(EnvConfig.parse(case.env)).reset(seed=SEEDS.seed(1, next_episode))
        saved = slot_of(observations, 1)
        assert same(map_tree(lambda leaf, got: np.asarray(got, leaf.dtype), saved, first), saved)
        again = play(env, observations, stretch.actions[step : step + 10])
    for slot in (0, 2):
        expected = [slot_of(row, slot) for row in stretch.observations[step : step + 11]]
        assert all(same(slot_of(a, slot), b) for a, b in zip(again.observations, expected, strict=True))


@seeded
def test_replaying_actions_stops_when_its_time_limit_is_exceeded(case: Case) -> None:
    stretch = recorded(case)
    step = next(step for step in reversed(range(len(stretch.places))) if stretch.places[step][0].length > 0)
    places, actions, hashes = saved_at(stretch, step)
    with opened(case) as env:
        _, exact = env.restore(places, actions, hashes, max_replay_s=0.0)
        assert exact == [place.length == 0 for place in places]
        after = [(place.episode, place.length) for place in env.places()]
    assert after == [(place.episode, 0) if place.length == 0 else (place.episode + 1, 0) for place in places]


def joined(first: Recorded, second: Recorded) -> Recorded:
    """Joins a stretch and the one after it; the second begins with the last row of the first."""
    return Recorded(
        first.observations[:-1] + second.observations,
        first.places[:-1] + second.places,
        first.actions + second.actions,
        *(
            np.concatenate([getattr(first, name), getattr(second, name)])
            for name in ("rewards", "terminateds", "truncateds")
        ),
    )


@contextmanager
def chosen_episodes(case: Case, slots: Sequence[int], seeds: Sequence[int]) -> Iterator[tuple[int, Recorded]]:
    """Yields the number of steps before chosen episodes begin in some env slots, and the whole stretch.

    They begin right after an end in the last env slot, when its next episode would begin.
    """
    stretch = recorded(case)
    step = int(stretch.ends[:, -1].argmax()) + 1
    with opened(case) as env:
        before = play(env, env.reset(), stretch.actions[:step])
        yield step, joined(before, play(env, env.begin(slots, seeds), random_actions(env, 30, seed=4)))


@seeded
def test_a_chosen_episode_starts_like_a_reset_with_its_seed_and_the_numbering_continues(case: Case) -> None:
    single = make_env(EnvConfig.parse(case.env))
    with chosen_episodes(case, [2, 0], [71, 2**31 - 1]) as (begun, stretch):
        for slot, seed in ((2, 71), (0, 2**31 - 1)):
            episode = recorded(case).places[begun][slot].episode + 1
            assert stretch.places[begun][slot] == EpisodePosition(episode, seed, 0)
            observation, _ = single.reset(seed=seed)
            for step in range(begun, len(stretch.actions)):
                saved = slot_of(stretch.observations[step], slot)
                assert same(map_tree(lambda leaf, got: np.asarray(got, leaf.dtype), saved, observation), saved)
                if stretch.begins[step][slot] and step > begun:
                    assert stretch.places[step + 1][slot] == EpisodePosition(
                        episode + 1, SEEDS.seed(slot, episode + 1), 0
                    )
                    break
                observation, reward, *flags, _ = single.step(slot_of(stretch.actions[step], slot))
                assert float(reward) == stretch.rewards[step, slot]
                assert flags == [stretch.terminateds[step, slot], stretch.truncateds[step, slot]]
    single.close()


@seeded_but_pictures
def test_starting_chosen_episodes_in_some_slots_does_not_disturb_the_other_slots(case: Case) -> None:
    undisturbed = recorded(case)
    with chosen_episodes(case, [1], [71]) as (begun, stretch):
        for slot in (0, 2):
            assert stretch.places[begun][slot] == undisturbed.places[begun][slot]
            assert same(slot_of(stretch.observations[begun], slot), slot_of(undisturbed.observations[begun], slot))
    with opened(case) as env:
        alone = play(env, env.reset(), stretch.actions)
    for slot in (0, 2):
        assert all(
            same(slot_of(one, slot), slot_of(other, slot))
            for one, other in zip(stretch.observations, alone.observations, strict=True)
        )
        np.testing.assert_array_equal(stretch.rewards[:, slot], alone.rewards[:, slot])
        np.testing.assert_array_equal(stretch.ends[:, slot], alone.ends[:, slot])


@seeded_but_pictures
def test_a_position_within_a_chosen_episode_is_restored(case: Case) -> None:
    with chosen_episodes(case, [0, 1, 2], [5, 6, 7]) as (begun, stretch):
        for step in (begun, begun + 1, begun + 10):
            with opened(case) as env:
                observations, exact = env.restore(*saved_at(stretch, step), max_replay_s=60.0)
                assert exact == [True] * SLOTS
                assert env.places() == stretch.places[step]
                again = play(env, observations, stretch.actions[step : step + 20])
            expected = stretch.observations[step : step + 21]
            assert all(same(a, b) for a, b in zip(again.observations, expected, strict=True))
            np.testing.assert_array_equal(again.rewards, stretch.rewards[step : step + 20])


@whole
def test_an_env_that_cannot_seed_single_env_slots_refuses_to_begin_chosen_episodes(case: Case, wording) -> None:
    with opened(case) as env:
        env.reset()
        before = env.places()
        with wording.raised(UsageError):
            env.begin([0], [71])
        assert env.places() == before


@whole
def test_an_env_that_is_seeded_as_a_whole_restarts_its_episodes_on_restore_and_reports_this(case: Case) -> None:
    stretch = recorded(case)
    with opened(case) as env:
        assert not env.seeds_episodes
        observations, exact = env.restore(*saved_at(stretch, 40), max_replay_s=60.0)
        assert exact == [False] * SLOTS
        assert [place.episode for place in env.places()] == [place.episode + 1 for place in stretch.places[40]]
        assert [place.length for place in env.places()] == [0] * SLOTS
        assert not same(observations, stretch.observations[0])
        again = play(env, observations, stretch.actions[:20])
    assert len(again.observations) == 21


@seeded
def test_seeded_backends_report_that_they_seed_episodes(case: Case) -> None:
    with opened(case) as env:
        assert env.seeds_episodes


def test_one_case_only_terminates_its_episodes_and_another_only_truncates_them() -> None:
    frozen_lake, truncated = recorded(CASES["frozen-lake"]), recorded(CASES["truncate-only"])
    assert frozen_lake.terminateds.any()
    assert not frozen_lake.truncateds.any()
    assert truncated.truncateds.any()
    assert not truncated.terminateds.any()
    assert np.flatnonzero(truncated.truncateds[:, 0]).tolist() == [8, 18, 28, 38, 48, 58, 68]


def test_nested_observations_of_several_slots_keep_their_structure_and_dtypes() -> None:
    with opened(CASES["nested-tuple"]) as env:
        first = env.reset()
        assert [name for name, _ in named_leaves(first)] == ["0", "1/inner/0", "1/inner/1"]
        assert [leaf.shape for leaf in leaves(first)] == [(3,), (3, 2), (3, 2)]
        assert [leaf.dtype for leaf in leaves(first)] == [np.int64, np.float32, np.int8]
