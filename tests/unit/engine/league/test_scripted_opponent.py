"""Scripted opponents by name."""

import numpy as np
import pytest

from rlrun.engine.league.scripted_opponent import ScriptedOpponent, undecided
from rlrun.engine.messages.errors import TrainingFailed, UsageError


def test_a_class_is_instantiated_for_each_decision_with_a_seed_from_the_noise() -> None:
    opponent = ScriptedOpponent("rlrun.toys:RandomLegal")
    observations = {"action_mask": np.ones((50, 9), np.int8)}
    noise = np.random.default_rng(0).random(50, np.float32)
    first = opponent.decide(observations, noise, list(range(50)))
    assert set(first) == set(range(9))
    assert opponent.decide(observations, noise, [3, 40]) == [first[3], first[40]]


def test_no_decision_is_needed_if_the_mask_allows_nothing() -> None:
    mask = np.array([[1, 0], [0, 0], [1, 1]], np.int8)
    acts = np.array([True, True, False])
    assert undecided({"action_mask": mask}, acts).tolist() == [True, False, False]
    assert undecided(np.zeros((3, 2)), acts).tolist() == acts.tolist()


def test_names_that_are_unknown_or_not_callable_are_refused(wording) -> None:
    with pytest.raises(UsageError, match="RandomLegal"):
        ScriptedOpponent("rlrun.toys:RandomLega")
    with pytest.raises(UsageError, match="must be callable"):
        ScriptedOpponent("gymnasium.envs.registration:registry")
    with wording.raised(UsageError, "minmax", "minimax"):
        ScriptedOpponent("minmax")


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("minimax(deep=3)", "has no setting 'deep', only depth"),
        ("minimax(3)", r"': write settings as in minimax\(depth=5\)"),
        ("minimax(depth=print)", r"': write settings as in minimax\(depth=5\)"),
        ("minimax(depth=3", r"'minimax\(depth=3'; must be one of: mcts, minimax.*; did you mean 'minimax'"),
        ("minimax(depth=-1)", "depth must be at least 0"),
        ("mcts(simulations='many')", "not supported between"),
        ("random(seed=1)", "has no setting 'seed', and no settings at all"),
    ],
)
def test_unknown_and_invalid_settings_of_an_opponent_are_refused(path: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        ScriptedOpponent(path)


def test_settings_are_passed_to_the_opponents_class() -> None:
    board = np.zeros((1, 6, 7, 2), np.float32)
    board[0, 5, 2:4, 1] = 1.0  # the other player has two in a row with open ends
    shown = {"observation": board, "action_mask": np.ones((1, 7), np.int8)}
    noise = np.array([0.3], np.float32)
    assert ScriptedOpponent("minimax( depth = 4 )").decide(shown, noise, [0])[0] in (1, 4)
    assert ScriptedOpponent("rlrun.toys:Minimax(depth=4)").decide(shown, noise, [0])[0] in (1, 4)


def test_the_error_for_a_game_that_an_opponent_does_not_support_lists_the_supported_ones(wording) -> None:
    with wording.raised(UsageError):
        ScriptedOpponent("minimax").decide(np.zeros((1, 3)), np.zeros(1, np.float32), [0])


def no_action(observation: np.ndarray) -> None:
    """Forgets to return an action."""


def test_errors_of_a_scripted_opponent_are_attributed_to_it(wording) -> None:
    observations, noise = np.zeros((2, 4), np.float32), np.zeros(2, np.float32)
    told = r"RandomLegal raised:\n(.|\n)*RandomLegal needs a Dict observation with"
    with pytest.raises(TrainingFailed, match=told):
        ScriptedOpponent("rlrun.toys:RandomLegal").decide(observations, noise, [0, 1])
    with wording.raised(TrainingFailed, "no_action"):
        ScriptedOpponent(f"{__name__}:no_action").decide(observations, noise, [1])
