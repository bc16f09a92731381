"""Exact best responses and average policies in small games, against published and closed-form values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlrun.engine.worlds.world import World
from rlrun.exact.exploitability import NOBODY, Chances, EnumeratedGame, InformationStates
from rlrun.toys.matrix_games import MatrixGame, MatrixPosition
from rlrun.toys.poker import BET, PASS, Kuhn, KuhnPosition, Leduc, LeducPosition

KUHN = EnumeratedGame(Kuhn().game_tree())


def uniform(game: EnumeratedGame) -> list[Chances]:
    return [states.uniform() for states in game.states]


def kuhn_equilibrium(alpha: float) -> list[Chances]:
    """Returns Kuhn's equilibrium: the first player bets its lowest card with probability alpha, of 0 to 1/3."""
    policies = uniform(KUHN)
    # The probability of a bet, for each of the player's cards and the previous actions.
    bets = (
        {(0, ""): alpha, (1, ""): 0.0, (2, ""): 3 * alpha, (0, "01"): 0.0, (1, "01"): alpha + 1 / 3, (2, "01"): 1.0},
        {(0, "0"): 1 / 3, (1, "0"): 0.0, (2, "0"): 1.0, (0, "1"): 0.0, (1, "1"): 1 / 3, (2, "1"): 1.0},
    )
    for player, own in enumerate(bets):
        for (card, moves), bet in own.items():
            cards = (card, (card + 1) % 3) if player == 0 else ((card + 1) % 3, card)
            seen = KuhnPosition(cards, moves).observe()["observation"]
            (state,) = np.flatnonzero((KUHN.states[player].observations["observation"] == seen).all(-1))
            policies[player][state] = 1 - bet, bet
    return policies


@settings(deadline=None, max_examples=10)
@given(st.floats(0.0, 1 / 3))
def test_kuhn_equilibria_have_a_nash_conv_of_zero_and_cost_the_first_player_an_eighteenth(alpha: float) -> None:
    policies = kuhn_equilibrium(alpha)
    assert KUHN.values(policies) == pytest.approx((-1 / 18, 1 / 18))
    assert KUHN.nash_conv(policies) == pytest.approx(0.0, abs=1e-12)
    assert KUHN.best_response_value(1, policies) == pytest.approx(1 / 18)


@pytest.mark.parametrize(
    ("world", "states", "nash_conv"),
    [
        (Kuhn(), 6, 11 / 12),
        (Leduc(), 144, 4.747222222222222),  # the value that OpenSpiel publishes
        (MatrixGame("rock_paper_scissors"), 1, 0.0),
        (MatrixGame("prisoners_dilemma"), 1, 1.0),  # each gains 1/2 by confessing
    ],
)
def test_nash_conv_of_uniform_play_matches_known_values(world: World, states: int, nash_conv: float) -> None:
    tree = world.game_tree()
    assert tree is not None
    game = EnumeratedGame(tree)
    assert [len(each.legal) for each in game.states] == [states, states]
    assert game.nash_conv(uniform(game)) == pytest.approx(nash_conv)
    assert game.exploitability(uniform(game)) == pytest.approx(nash_conv / 2)


def test_a_pure_policy_in_rock_paper_scissors_loses_every_game_to_its_best_response() -> None:
    game = EnumeratedGame(MatrixGame("rock_paper_scissors").game_tree())
    rock = np.array([[1.0, 0.0, 0.0]])
    assert game.nash_conv([rock, rock]) == 2.0
    paper = np.array([[0.0, 1.0, 0.0]])
    assert game.values([paper, rock]) == (1.0, -1.0)


def test_the_average_of_two_policies_plays_as_if_one_were_drawn_before_each_game() -> None:
    """A first player who always bets never reaches its second decision in Kuhn, where the other one decides alone."""
    states = KUHN.states[0]
    bets, passes = np.zeros((6, 2)), np.zeros((6, 2))
    bets[:, BET] = 1.0
    passes[:, PASS] = 1.0
    average = states.average([bets, passes])
    later = np.array([state >= 0 for state, _ in states.before])
    np.testing.assert_array_equal(average[~later], 0.5)
    np.testing.assert_array_equal(average[later], passes[later])
    np.testing.assert_array_equal(states.average([bets])[later], 0.5)  # never reached: uniform


def test_average_policies_weight_members_by_the_probability_of_all_their_earlier_moves() -> None:
    """Three moves in a row, as in Leduc and not in Kuhn, each after the second action of the one before."""
    states = InformationStates(None, np.ones((3, 2), np.bool_), [NOBODY, (0, 1), (1, 1)])
    first, second = np.array([[0.5, 0.5], [0.2, 0.8], [1.0, 0.0]]), np.array([[0.9, 0.1], [0.5, 0.5], [0.0, 1.0]])
    average = states.average([first, second])
    np.testing.assert_allclose(average[0], [0.7, 0.3])
    np.testing.assert_allclose(average[1], [(0.5 * 0.2 + 0.1 * 0.5) / 0.6, (0.5 * 0.8 + 0.1 * 0.5) / 0.6])
    np.testing.assert_allclose(average[2], [0.5 * 0.8 / 0.45, 0.1 * 0.5 / 0.45])


@given(st.integers(0, 2**32 - 1))
@settings(deadline=None, max_examples=10)
def test_the_value_of_an_average_policy_is_the_mean_value_of_its_members(seed: int) -> None:
    draws = np.random.default_rng(seed)
    first, second, other = draws.dirichlet([0.5, 0.5], (3, 6))
    average = KUHN.states[0].average([first, second])
    earned = np.mean([KUHN.values([own, other])[0] for own in (first, second)])
    assert KUHN.values([average, other])[0] == pytest.approx(earned)


class Forgets(MatrixPosition):
    """A game in which the first player moves twice, with the same observation both times."""

    @property
    def player(self) -> int | None:
        return 0 if len(self.actions) < 2 else None


def test_a_game_in_which_a_player_forgets_its_own_moves_is_refused() -> None:
    with pytest.raises(
        ValueError,
        match="observes the same after different moves of its own; exploitability needs a game with perfect recall",
    ):
        EnumeratedGame(Forgets(np.zeros((2, 2, 2))))


@pytest.mark.parametrize("world", [Kuhn(), Leduc()])
def test_worlds_play_the_same_games_as_their_game_trees(world: World) -> None:
    """In random games, a world's observations and masks are information states of the tree."""
    tree = world.game_tree()
    assert tree is not None
    known = [{row.tobytes() for row in states.observations["observation"]} for states in EnumeratedGame(tree).states]
    draws = np.random.default_rng(0)
    for seed in range(20):
        shown = world.reset(seed)
        paid: Mapping[str, float] = {}
        while shown:
            ((agent, seen),) = shown.items()
            assert world.spaces(agent).observation.contains(seen)
            assert seen["observation"].tobytes() in known[int(agent[-1])]
            step = world.step({agent: draws.choice(np.flatnonzero(seen["action_mask"]))})
            shown, paid = step.observations, step.rewards
        assert step.ended
        assert sum(paid.values()) == 0.0
        assert max(paid.values()) <= 13.0


def test_the_same_seed_always_deals_the_same_cards() -> None:
    def dealt(seed: int) -> Any:
        return Leduc().reset(seed)["player_0"]["observation"].tolist()

    assert [dealt(seed) for seed in range(5)] == [dealt(seed) for seed in range(5)]
    assert len({tuple(dealt(seed)) for seed in range(20)}) == 3


@pytest.mark.parametrize(
    ("moves", "first_wins"),
    [
        ("11 11", 1.0),  # two checks in each round: the higher rank wins the ante
        ("21 21", 7.0),  # a raise of 2 and one of 4, both called
        ("221 1221", 13.0),
        ("20", 1.0),  # the second player folds
        ("220", -3.0),  # the first player folds after its raise of 2
        ("11 20", 1.0),
        ("21 120", -3.0),
    ],
)
def test_in_leduc_the_player_who_folds_or_has_the_lower_card_loses_their_stake(moves: str, first_wins: float) -> None:
    position = LeducPosition(ranks=(2, 0))
    for number, done in enumerate(moves.split()):
        if number:
            position = next(after for _, after in position.chances() if after.ranks[-1] == 1)
        for action in done:
            assert position.legal()[int(action)]
            position = position.play(int(action))
    assert position.player is None
    assert position.returns == (first_wins, -first_wins)


def test_in_leduc_a_pair_beats_a_higher_rank_and_equal_ranks_split_the_pot() -> None:
    assert LeducPosition((2, 0, 0), ("11", "11")).returns == (-1.0, 1.0)
    assert LeducPosition((1, 1, 0), ("21", "21")).returns == (0.0, 0.0)
    assert LeducPosition((0, 2)).legal().tolist() == [False, True, True]  # nothing was raised
    assert LeducPosition((0, 2), ("22",)).legal().tolist() == [True, True, False]
    assert sum(chance for chance, _ in LeducPosition((0, 0), ("11", "")).chances()) == pytest.approx(1.0)
