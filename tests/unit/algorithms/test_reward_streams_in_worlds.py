"""Curiosity and constraints in multi-agent worlds: bit-exact resumes, and what they learn."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete

import rlrun
from rlrun.engine.algorithm import Algorithm
from rlrun.engine.envs.env_config import WorldClock
from rlrun.engine.envs.spaces import Spaces
from rlrun.engine.messages.errors import SpecError, UsageError
from rlrun.engine.worlds.world import World, WorldStep
from rlrun.experiments.spec.load import parse_experiments
from rlrun.experiments.trial.trial_loop import TrialLoop
from tests.results import numbers

MOVES = 4


class Tolls(World):
    """Action 1 pays an agent 1 and costs it 1, action 0 nothing; each moves four times, then its episode ends.

    With the clock `per_agent`, they take turns, and a newborn replaces the one that leaves first.
    """

    def __init__(self, clock: WorldClock = "parallel", lives: int = 2) -> None:
        self.clock = clock
        self.lives = lives
        self.possible_agents = ("x", "y")

    def spaces(self, agent: str) -> Spaces:
        return Spaces(Box(0.0, 1.0, (MOVES + 1,), np.float32), Discrete(2))

    def reset(self, seed: int) -> Mapping[str, Any]:
        self.moves = {"x": 0, "y": 0}
        self.left = self.lives
        self.turn = "x"
        return self.seen("x", "y") if self.clock == "parallel" else self.seen("x")

    def seen(self, *agents: str) -> dict[str, Any]:
        return {agent: np.eye(MOVES + 1, dtype=np.float32)[self.moves[agent]] for agent in agents}

    def step(self, actions: Mapping[str, Any]) -> WorldStep:
        for agent in actions:
            self.moves[agent] += 1
        paid = {agent: float(action) for agent, action in actions.items()}
        over = {agent: self.moves[agent] == MOVES for agent in actions}
        shown = self.seen(*actions)
        if self.clock == "per_agent":
            shown = self.seen(*(agent for agent in actions if over[agent]))
            self.turn = "y" if self.turn == "x" else "x"
            if self.moves[self.turn] == MOVES:  # a newborn
                self.moves[self.turn] = 0
                self.left -= 1
            shown |= self.seen(self.turn)
        infos = {agent: {"cost": float(action)} for agent, action in actions.items()}
        ended = all(over.values()) if self.clock == "parallel" else self.left == 0
        return WorldStep(shown, paid, over, {}, infos, ended)


SMALL = {"num_epochs": 2, "train_batch_size": 128, "minibatch_size": 32, "model": {"hiddens": [8]}}
ALONE = {**SMALL, "min_env_steps_per_iteration": 0}
CURIOUS = {"hiddens": [8], "features": 4}
BOUND = {"column": "cost", "limit": 1.0}
CASES: dict[str, tuple[type[Algorithm[Any]], dict[str, Any]]] = {
    "ppo rnd": (rlrun.PPO, {**ALONE, "curiosity": CURIOUS}),
    "ppo icm, bounded": (rlrun.PPO, {**ALONE, "curiosity": {**CURIOUS, "kind": "icm"}, "constraint": BOUND}),
    "ppo rnd, recurrent and bounded": (
        rlrun.PPO,
        {
            **ALONE,
            "seq_len": 4,
            "curiosity": CURIOUS,
            "constraint": BOUND,
            "model": {"hiddens": [8], "core": "gru", "core_width": 8},
        },
    ),
    "a2c re3": (rlrun.A2C, {"train_batch_size": 64, "model": {"hiddens": [8]}, "curiosity": {"kind": "re3"}}),
    "a2c bounded": (rlrun.A2C, {"train_batch_size": 64, "model": {"hiddens": [8]}, "constraint": BOUND}),
}


def world(clock: str) -> dict[str, Any]:
    return {"world": f"{__name__}:Tolls", "kwargs": {"clock": clock}, "columns": ["cost"]}


@pytest.mark.parametrize("clock", ["parallel", "per_agent"])
@pytest.mark.parametrize("name", CASES)
def test_a_resumed_run_in_a_world_matches_an_uninterrupted_run_bit_for_bit(
    name: str, clock: str, tmp_path: Path
) -> None:
    family, settings = CASES[name]
    with rlrun.Training(world(clock), family(**{**settings, "num_envs_per_worker": 3}), seed=100) as one:
        one.step()
        checkpoint = one.save(tmp_path / "checkpoint")
        expected = numbers(one.step())
        weights = one.running.trainee.learner.flat()
    with rlrun.Training.restore(checkpoint, trust=True) as other:
        assert numbers(other.step()) == expected
        np.testing.assert_array_equal(other.running.trainee.learner.flat(), weights)
    told = {key.removeprefix("policies/default/") for key in expected}
    assert ("intrinsic_reward_mean" in told) == ("curiosity" in settings)
    assert ("lagrange_multiplier" in told) == ("constraint" in settings)
    assert 0 < expected["policies/default/episode_columns/cost_mean"] < MOVES


@pytest.mark.parametrize("clock", ["parallel", "per_agent"])
def test_asynchronous_learning_with_curiosity_in_a_world_is_repeatable(clock: str) -> None:
    settings = {"train_batch_size": 80, "model": {"hiddens": [8]}, "curiosity": CURIOUS, "num_envs_per_worker": 3}
    with (
        rlrun.Training(world(clock), rlrun.Impala(**settings), seed=100) as one,
        rlrun.Training(world(clock), rlrun.Impala(**settings), seed=100) as same,
    ):
        found = numbers(one.step())
        assert numbers(same.step()) == found
    assert found["policies/default/intrinsic_reward_mean"] > 0 < found["policies/default/learner/intrinsic_value_loss"]


@pytest.mark.parametrize("clock", ["parallel", "per_agent"])
def test_agents_learn_to_keep_their_cost_at_the_limit(clock: str) -> None:
    settings = {
        **ALONE,
        "num_envs_per_worker": 4,
        "train_batch_size": 512,
        "lr": 5e-3,
        "num_epochs": 4,
        "entropy_coeff": 0.01,
        "constraint": {**BOUND, "multiplier_lr": 0.3},
    }
    with rlrun.Training(world(clock), rlrun.PPO(**settings), seed=100) as training:
        last = [training.step()["policies/default/episode_columns/cost_mean"] for _ in range(60)][-20:]
    assert np.mean(last) == pytest.approx(1.0, abs=0.25)


def test_world_evaluations_report_costs_per_policy_and_per_episode() -> None:
    with rlrun.Training(world("parallel"), rlrun.PPO(**ALONE), seed=100) as training:
        found = training.evaluate(3, actions="sampled")
    own = found.policies["default"]
    assert own.columns == {"cost": own.returns}  # each step's reward equals its cost
    assert found.columns == {"cost": found.returns}
    assert len(own.returns) == 6
    assert found.to_dict()["policies"]["default"]["columns"] == own.columns


def spec(**changed: Any) -> dict[str, Any]:
    ppo = {"algorithm": "ppo", "config": {**SMALL, "constraint": BOUND}}
    return {
        "tolls": {
            "env": world("parallel"),
            "policies": {"all": ppo},
            "stop": {"agent_steps": 64},
            "evaluation": {"every": 1, "episodes": 2},
            **changed,
        }
    }


def test_metrics_of_a_policys_columns_can_be_expected_values_and_select_the_best_checkpoint(tmp_path: Path) -> None:
    metric = "evaluation/policies/all/episode_columns/cost_mean"
    checkpoint = {"every": 1, "keep": 1, "best": metric}
    (found,) = parse_experiments(spec(checkpoint=checkpoint, expect={metric: 1.0}, stop={"iteration": 3}))
    assert found.expect is not None
    assert found.expect.metrics == {metric: 1.0}
    with TrialLoop(found.first_trial(), tmp_path / "trial") as loop:
        costs = [loop.step()[metric] for _ in range(3)]
        loop.checkpoints.wait()
    kept = sorted(path.name for path in (tmp_path / "trial" / "checkpoints").iterdir())
    best = 3 - costs[::-1].index(max(costs))
    assert best < 3  # the newest checkpoint would be kept in any case
    assert kept == [f"iteration_{number:06}" for number in (best, 3)]
    for wrong in ({"expect": {metric.replace("all", "x"): 1.0}}, {"checkpoint": {"best": metric.replace("all", "x")}}):
        with pytest.raises(SpecError, match="policies/x/episode_columns"):
            parse_experiments(spec(**wrong))


@pytest.mark.parametrize("columns", [[], ["price"]])
def test_a_constraint_on_a_column_not_declared_by_the_world_is_refused(columns: list[str], wording) -> None:
    env = {**world("parallel"), "columns": columns}
    with wording.raised(SpecError, "env.columns", "cost"):
        parse_experiments(spec(env=env))
    with (
        wording.raised(UsageError, "cost"),
        rlrun.Training(env, rlrun.PPO(constraint=BOUND)) as one,
    ):
        one.step()


def test_declared_columns_are_refused_for_worlds_that_are_stepped_as_arrays(wording) -> None:
    env = {"world": "rlrun.toys:CartPoleArrays", "columns": ["cost"]}
    with wording.raised(SpecError):
        parse_experiments(spec(env=env))


@pytest.mark.parametrize("columns", [["rewards"], ["cost", "cost"]])
def test_reserved_and_duplicate_column_names_are_refused(columns: list[str]) -> None:
    with pytest.raises(SpecError, match="columns"):
        parse_experiments(spec(env={**world("parallel"), "columns": columns}))
