"""Zero-sum games of two players, recorded with random moves: no point is lost or counted twice."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

from rlrun.algorithms.dqn.policy import QPolicy
from rlrun.engine.envs.env_config import EnvConfig
from rlrun.engine.envs.episode_position import EpisodeSeeds
from rlrun.engine.envs.spaces import Spaces
from rlrun.engine.functional.seeding import generator
from rlrun.engine.nn.model_config import ModelConfig
from rlrun.engine.policy.behavior import BehaviorPolicy
from rlrun.engine.policy.weights import Weights
from rlrun.engine.rollout.recorder import Recorded
from rlrun.engine.rollout.slot_recorder import SlotRecorder
from rlrun.engine.worlds.make import make_vector_world
from rlrun.engine.worlds.mapping import PolicyMapping
from tests.policies import plain_policy

LENGTH = 7
WORLDS = 16
PENNIES = {"world": "rlrun.toys:MatrixGame", "kwargs": {"game": "matching_pennies"}}


def mover(spaces: Spaces) -> BehaviorPolicy:
    """Returns a policy that draws all legal actions with equal probability."""
    policy = plain_policy(QPolicy, *spaces, ModelConfig(hiddens=(4,)), seed=0)
    behavior = policy.behavior()
    behavior.load(Weights(0, policy.parameters.gather(policy.module).numpy(), schedules={"epsilon": 1.0}))
    return behavior


def recorded_games(world: dict[str, Any], games: int) -> list[Recorded]:
    """Records fragments of games between two policies until enough games have ended."""
    config = EnvConfig.parse(world)
    mapping = PolicyMapping(("first", "second"), {"*_0": "first", "x": "first", "red": "first", "*": "second"})
    worlds = make_vector_world(config, WORLDS, EpisodeSeeds(0, 0), mapping, {})
    behaviors = {policy: mover(spaces) for policy, spaces in worlds.spaces.items()}
    recorder = SlotRecorder(worlds, behaviors, seeds=EpisodeSeeds(0, 0), name="games", length=LENGTH, max_replay_s=9.0)
    draws = generator(0, "moves")
    made: list[Recorded] = []
    while sum(len(fragment.episodes) for fragment in made) < games:
        noise = {policy: own.noise_source.noise(draws, LENGTH, WORLDS) for policy, own in behaviors.items()}
        made.append(recorder.record(noise))
    return made


@pytest.mark.parametrize(
    ("world", "longest"),
    [
        ({"world": "rlrun.toys:TicTacToe"}, 9),
        ({"world": "rlrun.toys:ConnectFour"}, 42),
        (PENNIES, 1),
        ({**PENNIES, "clock": "per_agent"}, 1),
    ],
    ids=["tic-tac-toe", "connect four", "matching pennies, parallel", "matching pennies, per_agent"],
)
def test_returns_and_recorded_rewards_of_two_players_sum_to_0_over_a_thousand_games(
    world: dict[str, Any], longest: int
) -> None:
    fragments = recorded_games(world, 1000)
    games = [game for fragment in fragments for game in fragment.episodes]
    assert [game.episode_return for game in games] == [0.0] * len(games)
    assert all(1 <= game.length <= longest for game in games)
    lives = {
        policy: [life for fragment in fragments for life in fragment.agent_episodes[policy]]
        for policy in ("first", "second")
    }
    points = {policy: [life.episode_return for life in own] for policy, own in lives.items()}
    assert points["first"] == [-point for point in points["second"]]
    assert len(points["first"]) == len(games)
    assert set(Counter(points["first"])) <= {-1.0, 0.0, 1.0}
    assert min(points["first"].count(1.0), points["second"].count(1.0)) > 100
    steps = sum(fragment.env_steps for fragment in fragments)
    for policy, own in lives.items():
        batches = [fragment.batches[policy] for fragment in fragments]
        valid = np.concatenate([batch["valid"] for batch in batches])
        rewards = np.concatenate([batch["rewards"] for batch in batches])
        assert not rewards[~valid].any()
        assert rewards.sum() == sum(points[policy])
        assert sum(life.length for life in own) <= valid.sum() <= steps
        ends = np.concatenate([batch["terminateds"] for batch in batches])
        assert ends.sum() == len(own)
        assert sorted(rewards[ends].tolist()) == sorted(points[policy])
