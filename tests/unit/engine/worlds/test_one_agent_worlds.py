"""Envs with one agent as worlds."""

from __future__ import annotations

from typing import Any

import numpy as np

from rlrun.engine.envs.env_config import EnvConfig
from rlrun.engine.envs.episode_position import EpisodeSeeds
from rlrun.engine.envs.make import make_vector_env, spaces_of
from rlrun.engine.worlds.make import check_world, game_of, kinds_of_agents, make_vector_world, spaces_of_policies
from rlrun.engine.worlds.mapping import PolicyMapping
from rlrun.engine.worlds.vector_world import VectorWorld, place_of

CARTPOLE = EnvConfig(id="CartPole-v1", max_episode_steps=7)
ALONE = PolicyMapping(("default",))


def worlds_of(config: EnvConfig, number: int = 3) -> VectorWorld:
    return make_vector_world(config, number, EpisodeSeeds(5, 0), ALONE, {})


def tossed(slots: int, steps: int) -> Any:
    return np.random.default_rng(0).integers(2, size=(steps, slots))


def test_a_single_agent_env_run_as_a_world_shows_what_the_env_returns_in_its_only_slot() -> None:
    worlds, env = worlds_of(CARTPOLE), make_vector_env(CARTPOLE, 3, EpisodeSeeds(5, 0))
    rows = worlds.reset()
    np.testing.assert_array_equal(rows.policies["default"].observations, env.reset())
    assert rows.policies["default"].starts.all()
    ended = np.zeros(3, np.bool_)
    for actions in tossed(3, 20):
        observations, rewards, terminateds, truncateds, _ = env.step(actions)
        rows = worlds.step({"default": actions})
        shown = rows.policies["default"]
        np.testing.assert_array_equal(shown.observations, observations)
        np.testing.assert_array_equal(shown.rewards, rewards)
        np.testing.assert_array_equal(rows.stepped, ~ended)
        np.testing.assert_array_equal(shown.starts, ended)
        ended = terminateds | truncateds
        np.testing.assert_array_equal(rows.ended, ended)
        np.testing.assert_array_equal(shown.acts, ~ended)


def test_replaying_the_actions_restores_the_world_of_a_single_agent_env() -> None:
    played, fresh = worlds_of(CARTPOLE), worlds_of(CARTPOLE)
    played.reset()
    taken = tossed(3, 10)
    for actions in taken:
        played.step({"default": actions})
    places = played.places()
    own = [{"default": taken[10 - place.length :, slot, None]} for slot, place in enumerate(places)]
    fresh.reset()
    _, exact = fresh.restore(places, own, played.hashes(), 60.0)
    assert exact == [True] * 3
    assert (fresh.hashes(), fresh.places()) == (played.hashes(), places)


def test_info_columns_contain_only_zeros_in_reset_rows() -> None:
    worlds = worlds_of(EnvConfig(id="rlrun.toys:TwoLanes", columns=("cost",), max_episode_steps=2))
    worlds.reset()
    found = []
    for _ in range(6):
        rows = worlds.step({"default": np.ones(3, np.int64)})
        found.append(rows.policies["default"].columns["cost"] * ~rows.stepped)
    assert not np.any(found)


def test_messages_about_a_single_agent_env_do_not_mention_an_agent() -> None:
    worlds = worlds_of(CARTPOLE)
    worlds.reset()
    assert place_of(worlds, "default", 2) == f"env 2, {worlds.places()[2]}"
    assert worlds.owners("default") == ("", "", "")


def test_functions_for_worlds_accept_a_single_agent_env() -> None:
    check_world(CARTPOLE)
    assert game_of(CARTPOLE) is None
    assert len(kinds_of_agents(CARTPOLE).policies) == 1
    assert spaces_of_policies(CARTPOLE, ALONE) == {"default": spaces_of(CARTPOLE)}
