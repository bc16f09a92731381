"""AlphaZero: its loss by hand, bit-exact resumes, and what it refuses."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

import rlrun
from rlrun.algorithms.alphazero.alphazero import AlphaZero, AlphaZeroConfig
from rlrun.algorithms.alphazero.ranked_rewards import BAR
from rlrun.algorithms.ppo import PPO
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.envs.env_config import EnvConfig
from rlrun.engine.league.league_settings import SeatSettings
from rlrun.engine.messages.errors import UsageError
from rlrun.engine.policy.action_spaces.discrete import Categorical
from rlrun.engine.training.assemble.policies import Policies
from rlrun.engine.training.training import Training
from tests.results import numbers
from tests.rounding import rounding_error

WORLD = EnvConfig(world="rlrun.toys:TicTacToe")
SMALL: dict[str, Any] = {
    "num_envs_per_worker": 4,
    "rollout_fragment_length": 5,
    "simulations": 6,
    "evaluation_simulations": 6,
    "learning_starts": 20,
    "minibatch_size": 16,
    "min_env_steps_per_iteration": 60,
    "model": {"hiddens": [8]},
    "compile": False,
}
GATE = {"gate": {"every": 40, "games": 4, "share": 0.4}}


def training(**settings: Any) -> Training:
    return Training(WORLD, AlphaZero(AlphaZeroConfig.parse({**SMALL, **settings})), seed=3)


def test_the_loss_is_cross_entropy_with_the_visits_plus_the_squared_error_to_the_result() -> None:
    logits = torch.tensor([[[0.0, 1.0, -1e9]], [[2.0, 0.0, 0.0]]])
    values = torch.tensor([[0.5], [-1.0]])
    visits = torch.tensor([[[0.25, 0.75, 0.0]], [[0.5, 0.5, 0.0]]])
    outcomes = torch.tensor([[1.0], [-1.0]])
    batch = SampleBatch(visits=visits, outcomes=outcomes, valid=torch.ones(2, 1))
    algorithm = AlphaZero(AlphaZeroConfig(value_coeff=3.0))
    loss = algorithm.loss(SimpleNamespace(distribution=Categorical(logits), values=values), batch, {})
    first = -(0.25 * np.log(1 / (1 + np.e)) + 0.75 * np.log(np.e / (1 + np.e)))
    second = -(0.5 * np.log(np.e**2 / (np.e**2 + 2)) + 0.5 * np.log(1 / (np.e**2 + 2)))
    squared = ((1 - np.tanh(0.5)) ** 2 + (-1 + np.tanh(1.0)) ** 2) / 2
    assert loss.statistics["policy_loss"].item() == pytest.approx((first + second) / 2, rel=rounding_error(2 * 3))
    assert loss.statistics["value_loss"].item() == pytest.approx(squared, rel=rounding_error(2 * 3))
    assert loss.total.item() == pytest.approx((first + second) / 2 + 3 * squared, rel=rounding_error(2 * 3))
    entropy = -(0.25 * np.log(0.25) + 0.75 * np.log(0.75) + np.log(0.5)) / 2
    assert loss.statistics["visits_entropy"].item() == pytest.approx(entropy, rel=rounding_error(2 * 3))


@pytest.mark.parametrize("settings", [{}, GATE, {"symmetries": False, "replay": {"capacity": 50}}])
def test_a_restored_training_continues_bit_for_bit(settings: dict[str, Any], tmp_path: Path) -> None:
    with training(**settings) as first:
        for _ in range(2):
            first.step()
        first.save(tmp_path / "checkpoint")
        expected = [numbers(first.step()) for _ in range(3)]
    with Training.restore(tmp_path / "checkpoint") as again:
        assert [numbers(again.step()) for _ in range(3)] == expected
    assert expected[-1]["policies/default/sgd_steps"] > 20


POLE = EnvConfig(
    world="rlrun.plugin:SearchedEnv",
    kwargs={"env": "rlrun.toys:SparseCartPole"},
)


def test_ranked_returns_compare_games_with_a_percentile_of_recent_ones_and_resume_exactly(tmp_path: Path) -> None:
    ranks = {"ranked_returns": {"percentile": 50, "newest": 3}}
    with Training(POLE, AlphaZero(AlphaZeroConfig.parse({**SMALL, **ranks})), seed=3) as first:
        for _ in range(2):
            first.step()
        first.save(tmp_path / "checkpoint")
        expected = [numbers(first.step()) for _ in range(2)]
        bar = expected[-1]["policies/default/ranked/bar"]
        assert bar == first.running.trainee.filters.moments[BAR].mean > 5  # every pole stands for some steps
        first.acting.search(4)
        assert first.evaluate(2).mean > 5
    with Training.restore(tmp_path / "checkpoint", trust=True) as again:
        assert [numbers(again.step()) for _ in range(2)] == expected


def test_ranked_returns_are_refused_for_two_player_games_and_with_a_gate(wording) -> None:
    with pytest.raises(UsageError, match="leave one out"):
        AlphaZeroConfig.parse({**GATE, "ranked_returns": {}})
    with (
        training(ranked_returns={}) as refused,
        wording.raised(UsageError),
    ):
        refused.description.check()


def test_workers_receive_new_weights_only_after_the_gate_accepts_them() -> None:
    with training(gate={"every": 60, "games": 4, "share": 1.0}) as never:
        results = [never.step() for _ in range(3)]
        version = results[-1]["policies/default/gate/accepted"]
        sendings = never.running.trainee.workers.sendings
    assert 0 <= version <= 2
    assert sendings == 2 + version  # one at the start, one for the first weights, and one per accepted version
    assert 0 <= results[-1]["policies/default/gate/points"] <= 1


def test_alphazero_can_play_with_and_without_search_and_finds_a_winning_move() -> None:
    with rlrun.Training({"world": "rlrun.toys:TicTacToe"}, rlrun.AlphaZero(**SMALL), seed=1) as training:
        training.step()
        searched = training.games.play("minimax", 10)
        training.acting.search(0)
        alone = training.games.play("minimax", 10)
        assert sum(own.games for own in searched.values()) == sum(own.games for own in alone.values()) == 10
        board = np.zeros((3, 3, 2), np.float32)
        board[0, :2, 0] = 1
        board[1, :2, 1] = 1
        mask = (board.sum(-1) == 0).astype(np.int8).ravel()
        training.acting.search(100)
        assert training.act({"observation": board, "action_mask": mask}) == 2  # wins at once


def test_setting_search_simulations_for_a_policy_without_tree_search_is_refused() -> None:
    with Training(WORLD, PPO(PPO.Config(compile=False)), seed=0) as ppo, pytest.raises(UsageError, match="tree search"):
        ppo.acting.search(10)


@pytest.mark.parametrize("world", ["rlrun.toys:TwoStepGame", "rlrun.toys:CartPoles"])
def test_a_world_that_is_not_a_game_is_refused(world: str, wording) -> None:
    refused = Training(EnvConfig(world=world), AlphaZero(AlphaZeroConfig.parse(SMALL)), seed=0)
    with wording.raised(UsageError):
        refused.description.check()


def test_a_single_agent_env_is_refused(wording) -> None:
    with wording.raised(UsageError):
        rlrun.Training("CartPole-v1", rlrun.AlphaZero()).step()


def test_a_second_policy_and_seats_are_refused(wording) -> None:
    algorithm = AlphaZero(AlphaZeroConfig.parse(SMALL))
    two = Policies(
        {"a": algorithm, "b": PPO(PPO.Config(compile=False))}, algorithm.config, mapping={"x": "a", "o": "b"}
    )
    seats = Policies(
        {"a": algorithm},
        algorithm.config,
        mapping={"x": "a", "o": "them"},
        seats={"them": SeatSettings(plays_against="a")},
    )
    for policies in (two, seats):
        with wording.raised(UsageError):
            Training(WORLD, policies, seed=0).description.check()
