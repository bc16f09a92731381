"""Self-play delivers the rows of whole games, each with the outcome of its game for the player to move."""

from __future__ import annotations

import dataclasses
import pickle
from typing import Any

import numpy as np
import pytest

from rlrun.algorithms.alphazero.alphazero import AlphaZero, AlphaZeroConfig
from rlrun.algorithms.alphazero.ranked_rewards import BAR
from rlrun.algorithms.alphazero.self_play_worker import OUTCOMES, RETURNS, VISITS, SelfPlayWorker
from rlrun.engine.data.action_masks import ACTION_MASK
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.envs.env_config import EnvConfig
from rlrun.engine.functional.moments import Moments
from rlrun.engine.policy.weights import Weights
from rlrun.engine.rollout.worker import Orders
from rlrun.engine.training.assemble.assembly import assemble
from rlrun.engine.training.assemble.policies import Policies
from rlrun.engine.worlds.games.array_game import OBSERVATION
from rlrun.toys.game_arrays import TicTacToeArrays
from tests.rounding import rounding_error

WORLD = EnvConfig(world="rlrun.toys:TicTacToe")
SETTINGS = {"num_envs_per_worker": 5, "rollout_fragment_length": 4, "simulations": 12, "model": {"hiddens": [8]}}


def worker(**settings: Any) -> SelfPlayWorker:
    algorithm = AlphaZero(AlphaZeroConfig.parse({**SETTINGS, **settings}))
    running = assemble(WORLD, Policies.alone(algorithm), 3, lambda message: None, update_executor="eager")
    made = SelfPlayWorker(pickle.loads(pickle.dumps(running.workers.config)))
    made.follow(Orders({"default": running.trainee.weights()}))
    return made


def one_weights() -> Weights:
    """Weights of a network whose output is always 0."""
    algorithm = AlphaZero(AlphaZeroConfig.parse(SETTINGS))
    running = assemble(WORLD, Policies.alone(algorithm), 3, lambda message: None, update_executor="eager")
    weights = running.trainee.weights()
    return dataclasses.replace(weights, acting=np.zeros_like(weights.acting))


def games_in(batch: SampleBatch) -> list[slice]:
    """Rows of whole games follow each other: a game begins with an empty board."""
    boards = batch["obs"][OBSERVATION][:, 0]
    begins = (boards.reshape(len(boards), -1).sum(1) == 0).nonzero()[0].tolist()
    return [slice(*ends) for ends in zip(begins, [*begins[1:], len(boards)], strict=True)]


def test_fragments_hold_whole_games_with_results_as_seen_by_the_player_to_move() -> None:
    game, play = TicTacToeArrays(), worker()
    results = []
    for number in range(12):
        rollout = play.sample()
        batch = rollout.batches["default"]
        assert (rollout.fragment, rollout.env_steps) == (number, 20)
        games = games_in(batch) if len(batch["valid"]) else []
        assert len(games) == len(rollout.episodes) == len(rollout.agent_episodes["default"]) / 2
        for rows, episode in zip(games, rollout.episodes, strict=True):
            boards = batch["obs"][OBSERVATION][rows, 0]
            states = game.positions({OBSERVATION: boards})
            assert game.movers(states).tolist() == [(-1.0) ** i for i in range(len(states))]
            assert (batch["obs"][ACTION_MASK][rows, 0] == game.legal(states)).all()
            after = [game.play(states[-1:], np.array([a])) for a in game.legal(states[-1:])[0].nonzero()[0]]
            last = batch[OUTCOMES][rows, 0][-1]
            assert last in {-float(game.results(state)[1][0]) for state in after if game.results(state)[0][0]}
            signs = (-1.0) ** np.arange(len(states))[::-1]
            assert (batch[OUTCOMES][rows, 0] == last * signs).all()
            assert episode.episode_return == 0
            results.append(batch[OUTCOMES][rows, 0][0])
        first = [own.episode_return for own in rollout.agent_episodes["default"] if own.agent == "x"]
        assert first == results[len(results) - len(first) :]
    assert set(results) == {-1, 0, 1}


def test_recorded_visits_are_shares_that_sum_to_1_over_the_legal_actions() -> None:
    play = worker()
    for batch in (play.sample().batches["default"] for _ in range(5)):
        assert (batch[VISITS][~batch["obs"][ACTION_MASK]] == 0).all()
        np.testing.assert_allclose(batch[VISITS].sum(-1), 1.0, atol=rounding_error(9))


def test_unfinished_games_continue_in_the_next_fragment() -> None:
    play = worker(rollout_fragment_length=1)
    rollouts = [play.sample() for _ in range(20)]
    assert all(len(rollout.batches["default"]["valid"]) == 0 for rollout in rollouts[:4])
    rows = sum(len(rollout.batches["default"]["valid"]) for rollout in rollouts)
    going_on = sum(len(actions) for actions in play.state()["actions"])
    assert rows + going_on == sum(rollout.env_steps for rollout in rollouts) == 100
    assert rows == sum(own.length for rollout in rollouts for own in rollout.agent_episodes["default"])


@pytest.mark.parametrize("fragments", [0, 3])
def test_a_worker_continues_from_its_state_bit_for_bit(fragments: int) -> None:
    first, second = worker(), worker()
    for _ in range(fragments):
        first.sample()
    assert second.load_state(first.place()) == 0
    for _ in range(3):
        one, other = first.sample(), second.sample()
        assert one.fragment == other.fragment
        for name in (VISITS, OUTCOMES):
            assert (one.batches["default"][name] == other.batches["default"][name]).all()
        assert (one.batches["default"]["obs"][OBSERVATION] == other.batches["default"]["obs"][OBSERVATION]).all()


def test_different_workers_play_different_games() -> None:
    one = worker()
    other = SelfPlayWorker(dataclasses.replace(one.config, worker_index=2))
    other.follow(Orders({"default": one_weights()}))
    one.follow(Orders({"default": one_weights()}))
    for play in (one, other):
        play.sample()
    assert one.state()["actions"][0].tolist() != other.state()["actions"][0].tolist()


def test_the_most_visited_move_is_played_after_the_exploring_moves() -> None:
    play = worker(exploring_moves=0, root_noise=0.0)
    batch = next(b for b in (play.sample().batches["default"] for _ in range(4)) if len(b["valid"]))
    for rows in games_in(batch):
        boards = batch["obs"][OBSERVATION][rows, 0]
        for i in range(len(boards) - 1):
            put = (boards[i + 1][..., 1] - boards[i][..., 0]).ravel().argmax()
            assert put == batch[VISITS][rows, 0][i].argmax()


POLE = EnvConfig(
    world="rlrun.plugin:SearchedEnv",
    kwargs={"env": "rlrun.toys:SparseCartPole", "kwargs": {"steps": 12}},
)


def pole_worker() -> SelfPlayWorker:
    algorithm = AlphaZero(AlphaZeroConfig.parse({**SETTINGS, "rollout_fragment_length": 7, "ranked_returns": {}}))
    running = assemble(POLE, Policies.alone(algorithm), 3, lambda message: None, update_executor="eager")
    made = SelfPlayWorker(pickle.loads(pickle.dumps(running.workers.config)))
    bar = {BAR: Moments(1.0, np.array(11.5), np.zeros(()))}
    made.follow(Orders({"default": dataclasses.replace(running.trainee.weights(), filters=bar)}))
    return made


def test_a_single_player_game_is_won_by_a_return_that_reaches_the_bar() -> None:
    play, seen = pole_worker(), []
    for _ in range(8):
        rollout = play.sample()
        batch = rollout.batches["default"]
        returns = batch[RETURNS][:, 0]
        ends = np.flatnonzero(np.isfinite(returns))
        assert returns[ends].tolist() == [own.episode_return for own in rollout.agent_episodes["default"]]
        lengths = np.diff(np.append(-1, ends))
        assert lengths.tolist() == returns[ends].tolist()  # each step pays 1
        assert batch[OUTCOMES][:, 0].tolist() == np.repeat(np.where(returns[ends] >= 11.5, 1, -1), lengths).tolist()
        begins = batch["obs"][np.append(0, ends[:-1] + 1), 0] if len(ends) else batch["obs"][:0, 0]
        seen += begins[:, 0].tolist()
    assert len(set(seen)) == len(seen) > 10  # each episode begins in a different state


def test_single_player_games_continue_exactly_from_a_saved_state() -> None:
    first, again = pole_worker(), pole_worker()
    for _ in range(2):
        first.sample()
    again.load_state(first.state())
    for _ in range(3):
        mine, theirs = (each.sample().batches["default"] for each in (first, again))
        for name in (VISITS, OUTCOMES, RETURNS, "obs"):
            np.testing.assert_array_equal(mine[name], theirs[name])
