"""rlrun's vector CartPole equals Gymnasium's single env, env slot by env slot and bit by bit."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.envs.classic_control.cartpole import CartPoleVectorEnv

from rlrun.engine.envs.cartpole_vector_env import SeededCartPole
from rlrun.engine.envs.env_config import EnvConfig
from rlrun.engine.envs.episode_position import EpisodeSeeds
from rlrun.engine.envs.make import make_vector_env
from rlrun.engine.envs.vector_env import EnvError

SEEDS = EpisodeSeeds(run_seed=1, worker_index=0)


def balancing(observations: Any) -> Any:
    """Returns actions that keep the pole up for long."""
    return (observations @ np.array([0.02, 0.05, 1.0, 0.5]) > 0).astype(np.int64)


@pytest.mark.parametrize("kwargs", [{}, {"sutton_barto_reward": True}])
def test_every_slot_moves_like_gymnasiums_single_env_over_many_episodes(kwargs: dict[str, Any]) -> None:
    slots, steps = 6, 2500
    vector = SeededCartPole(slots, 500, SEEDS, **kwargs)
    observations = vector.reset()
    singles = [gymnasium.make("CartPole-v1", **kwargs) for _ in range(slots)]
    episodes, ended, truncations = [0] * slots, [False] * slots, 0
    for slot, single in enumerate(singles):
        assert single.reset(seed=SEEDS.seed(slot, 0))[0].tobytes() == observations[slot].tobytes()
    random = np.random.default_rng(0).integers(0, 2, (steps, slots))
    for step in range(steps):
        # Three env slots fall often, and three are balanced until they are truncated.
        actions = np.where(np.arange(slots) < 3, random[step], balancing(observations))
        observations, rewards, terminateds, truncateds, infos = vector.step(actions)
        assert infos == {}
        for slot, single in enumerate(singles):
            if ended[slot]:
                episodes[slot] += 1
                expected, _ = single.reset(seed=SEEDS.seed(slot, episodes[slot]))
                outcome: tuple[Any, ...] = (0.0, False, False)
            else:
                expected, *outcome_list, _ = single.step(actions[slot])
                outcome = tuple(outcome_list)
            assert expected.tobytes() == observations[slot].tobytes()
            assert outcome == (rewards[slot], terminateds[slot], truncateds[slot])
            ended[slot] = bool(outcome[1] or outcome[2])
            truncations += bool(outcome[2])
    assert min(episodes[:3]) > 80
    assert truncations >= 12


def test_a_slot_moves_the_same_way_alone_or_next_to_other_slots() -> None:
    alone, among_others = SeededCartPole(1, 500, SEEDS), SeededCartPole(2, 500, SEEDS)
    assert alone.reset()[0].tobytes() == among_others.reset()[0].tobytes()
    for action in np.random.default_rng(2).integers(0, 2, 3000):
        observations, *outcome, _ = alone.step(np.array([action]))
        others, *expected, _ = among_others.step(np.array([action, 1]))
        assert observations[0].tobytes() == others[0].tobytes()
        assert [each[0] for each in outcome] == [each[0] for each in expected]


def test_the_vector_env_moves_like_gymnasiums_from_the_same_state() -> None:
    ours, theirs = SeededCartPole(64, 500, SEEDS), CartPoleVectorEnv(64)
    theirs.reset(seed=0)
    theirs.state = np.array(ours.reset().T, np.float64)
    ours._state[:] = theirs.state
    for actions in np.random.default_rng(1).integers(0, 2, (8, 64)):
        observations, *_ = ours.step(actions)
        np.testing.assert_array_equal(observations, theirs.step(actions)[0])


@pytest.mark.parametrize(("env_id", "limit"), [("CartPole-v1", 500), ("CartPole-v0", 200)])
def test_the_time_limit_depends_on_the_id_unless_the_config_overrides_it(env_id: str, limit: int) -> None:
    for config, expected in (
        (EnvConfig(id=env_id), limit),
        (EnvConfig(id=env_id, max_episode_steps=17), 17),
    ):
        env = make_vector_env(config, 1, SEEDS)
        observations = env.reset()
        for step in range(1, expected + 1):
            observations, _, terminateds, truncateds, _ = env.step(balancing(observations))
            assert (bool(truncateds[0]), bool(terminateds[0])) == (step == expected, False)


def test_actions_other_than_left_and_right_are_refused(wording) -> None:
    env = SeededCartPole(2, 500, SEEDS)
    env.reset()
    with wording.raised(EnvError):
        env.step(np.array([1, 2]))


def test_the_spaces_of_a_slot_equal_those_of_the_single_env() -> None:
    env, single = SeededCartPole(3, 500, SEEDS), gymnasium.make("CartPole-v1")
    assert env.observation_space == single.observation_space
    assert env.action_space == single.action_space
