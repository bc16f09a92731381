"""Acting with a search: the network's output, the visits, and rows that need no search."""

from __future__ import annotations

import numpy as np
import pytest

from rlrun.algorithms.alphazero.alphazero import AlphaZeroConfig
from rlrun.algorithms.alphazero.policy import SearchingPolicy
from rlrun.algorithms.alphazero.searching import SearchingBehavior
from rlrun.algorithms.alphazero.tree_search import BatchedSearch, SearchSettings
from rlrun.engine.data.action_masks import ACTION_MASK
from rlrun.engine.policy.weights import Weights
from rlrun.engine.worlds.games.array_game import OBSERVATION
from rlrun.engine.worlds.world_view import WorldView
from rlrun.toys.board_games import TicTacToe
from rlrun.toys.game_arrays import TicTacToeArrays
from tests.rounding import rounding_error

GAME = TicTacToeArrays()


def behavior(simulations: int) -> SearchingBehavior:
    model = {"hiddens": [8], "activation": "tanh"}
    config = AlphaZeroConfig.parse({"model": model, "evaluation_simulations": simulations})
    policy = SearchingPolicy(TicTacToe().spaces("x"), config, 0, WorldView(None, 2, "per_agent", GAME))
    flat = np.random.default_rng(0).normal(size=policy.parameters.size).astype(np.float32)
    made = policy.behavior()
    made.load(Weights(0, flat))
    assert isinstance(made, SearchingBehavior)
    return made


def positions(moves: int = 3, number: int = 6) -> np.ndarray:
    generator, states = np.random.default_rng(1), GAME.first(number)
    for _ in range(moves):
        states = GAME.play(states, (generator.random((number, 9)) * GAME.legal(states)).argmax(1))
    return states


def test_predicted_probabilities_are_masked_and_values_lie_between_minus_1_and_1() -> None:
    own, states = behavior(0), positions()
    legal = GAME.legal(states)
    priors, values = own.prediction(states, legal)
    assert (priors[~legal] == 0).all()
    np.testing.assert_allclose(priors.sum(1), 1, atol=rounding_error(9))
    assert (np.abs(values) < 1).all()
    logits = own.outputs(GAME.observe(states))
    np.testing.assert_allclose(
        np.exp(logits[0][legal[0]]) / np.exp(logits[0][legal[0]]).sum(), priors[0][legal[0]], rtol=rounding_error(9)
    )


def test_without_simulations_the_networks_likeliest_action_is_taken() -> None:
    own, states = behavior(0), positions()
    priors, _ = own.prediction(states, GAME.legal(states))
    assert own.actions(GAME.observe(states), None).tolist() == priors.argmax(1).tolist()


def test_with_simulations_the_most_visited_action_is_taken_or_one_is_drawn_by_visits() -> None:
    own, states = behavior(60), positions()
    search = BatchedSearch(GAME, own.prediction, SearchSettings())
    search.begin(states)
    search.run(60)
    assert own.actions(GAME.observe(states), None).tolist() == search.visits.argmax(1).tolist()
    same = np.repeat(states[:1], 3000, axis=0)
    own.search(12)
    search.begin(states[:1])
    search.run(12)
    drawn = own.actions(GAME.observe(same), np.random.default_rng(0))
    np.testing.assert_allclose(np.bincount(drawn, minlength=9) / 3000, search.visits[0] / 12, atol=0.03)


def test_finished_games_do_not_affect_the_actions_of_other_rows() -> None:
    own, seen = behavior(20), GAME.observe(positions())
    alone = own.actions(seen, None)
    over = GAME.first(1)
    for action in (0, 3, 1, 4, 2):
        over = GAME.play(over, np.array([action]))
    final = GAME.observe(over)
    final[ACTION_MASK][:] = 0
    both = {name: np.concatenate([final[name], seen[name]]) for name in (OBSERVATION, ACTION_MASK)}
    assert own.actions(both, None)[1:].tolist() == alone.tolist()
    assert own.actions(final, None).shape == (1,)


@pytest.mark.parametrize("simulations", [0, 20])
def test_an_unpickled_copy_acts_like_the_original_after_loading_its_weights(simulations: int) -> None:
    import pickle

    own, seen = behavior(simulations), GAME.observe(positions())
    copy = pickle.loads(pickle.dumps(own))
    copy.load(Weights(0, np.random.default_rng(0).normal(size=local_size(own)).astype(np.float32)))
    assert copy.actions(seen, None).tolist() == own.actions(seen, None).tolist()


def local_size(own: SearchingBehavior) -> int:
    slots = own.prediction.network.slots.values()  # type: ignore[attr-defined]
    return max(slot.offset + slot.size for slot in slots)
