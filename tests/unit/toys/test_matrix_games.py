"""Matrix games pay what their tables say, and end when they say."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from rlrun.engine.messages.errors import UsageError
from rlrun.toys.matrix_games import AGENTS, MatrixGame, TwoStepGame


def paid(game: MatrixGame, first: int, second: int) -> tuple[float, float]:
    game.reset(0)
    step = game.step({"agent_0": first, "agent_1": second})
    assert step.ended
    assert step.terminateds == {"agent_0": True, "agent_1": True}
    return step.rewards["agent_0"], step.rewards["agent_1"]


@pytest.mark.parametrize(
    ("game", "table"),
    [
        (MatrixGame(k=-7.0), [[10, 0, -7], [0, 2, 0], [-7, 0, 10]]),
        (MatrixGame("climbing"), [[11, -30, 0], [-30, 7, 6], [0, 0, 5]]),
        (MatrixGame("additive_fit"), [[0, 1], [1, 8]]),
    ],
)
def test_agents_with_a_common_payoff_table_get_equal_rewards(game: MatrixGame, table: list[list[float]]) -> None:
    for first, second in itertools.product(range(len(table)), repeat=2):
        assert paid(game, first, second) == (table[first][second], table[first][second])


def test_confessing_is_a_dominant_strategy_and_mutual_confession_is_worse_for_both() -> None:
    game = MatrixGame("prisoners_dilemma")
    assert [paid(game, *actions) for actions in itertools.product((0, 1), repeat=2)] == [
        (-1.0, -1.0),
        (-3.0, 0.0),
        (0.0, -3.0),
        (-2.0, -2.0),
    ]


def test_matching_pennies_is_a_zero_sum_game() -> None:
    game = MatrixGame("matching_pennies")
    assert [paid(game, *actions) for actions in itertools.product((0, 1), repeat=2)] == [
        (1.0, -1.0),
        (-1.0, 1.0),
        (-1.0, 1.0),
        (1.0, -1.0),
    ]


def test_the_best_additive_fit_of_the_payoff_table_is_the_documented_one() -> None:
    table = np.array([[paid(MatrixGame("additive_fit"), i, j)[0] for j in (0, 1)] for i in (0, 1)])
    fit = table.mean(0) + table.mean(1)[:, None] - table.mean()
    np.testing.assert_allclose(fit, [[-1.5, 2.5], [2.5, 6.5]])


@pytest.mark.parametrize("world", [MatrixGame(), TwoStepGame()])
def test_observations_and_states_of_matrix_games_belong_to_their_spaces(world: MatrixGame | TwoStepGame) -> None:
    shown, ended = world.reset(3), False
    while True:
        assert set(shown) == set(AGENTS)
        for agent in AGENTS:
            assert world.spaces(agent).observation.contains(shown[agent])
        assert world.state_space is not None
        assert world.state_space.contains(world.state())
        if ended:
            break
        step = world.step(dict.fromkeys(AGENTS, 1))
        shown, ended = step.observations, step.ended


@pytest.mark.parametrize(("first", "table"), [(0, [[7, 7], [7, 7]]), (1, [[0, 1], [1, 8]])])
def test_the_first_action_of_the_first_agent_chooses_the_table_of_the_two_step_game(
    first: int, table: list[list[float]]
) -> None:
    game = TwoStepGame()
    for ignored, one, other in itertools.product((0, 1), repeat=3):
        np.testing.assert_array_equal(game.reset(0)["agent_1"], [1, 0, 0])
        step = game.step({"agent_0": first, "agent_1": ignored})
        assert (step.rewards, step.ended) == ({"agent_0": 0.0, "agent_1": 0.0}, False)
        np.testing.assert_array_equal(step.observations["agent_0"], [0, 1 - first, first])
        step = game.step({"agent_0": one, "agent_1": other})
        assert set(step.rewards.values()) == {table[one][other]}
        assert step.ended
        assert step.terminateds == {"agent_0": True, "agent_1": True}


def test_the_error_for_an_unknown_matrix_game_lists_the_known_games() -> None:
    with pytest.raises(UsageError, match="climbing, matching_pennies, penalty"):
        MatrixGame("chicken")
