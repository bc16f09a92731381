"""Scripted opponents by name."""

import numpy as np
import pytest

from rlrun.errors import TrainingFailed, UsageError
from rlrun.league.scripted_opponent import ScriptedOpponent, undecided


def test_a_class_is_made_with_a_seed_of_the_noise_for_each_decision() -> None:
    opponent = ScriptedOpponent("rlrun.worlds.scripted:RandomLegal")
    observations = {"action_mask": np.ones((50, 9), np.int8)}
    noise = np.random.default_rng(0).random(50, np.float32)
    first = opponent.decide(observations, noise, list(range(50)))
    assert set(first) == set(range(9))
    assert opponent.decide(observations, noise, [3, 40]) == [first[3], first[40]]


def test_an_observation_whose_mask_allows_nothing_is_an_episodes_end() -> None:
    mask = np.array([[1, 0], [0, 0], [1, 1]], np.int8)
    acts = np.array([True, True, False])
    assert undecided({"action_mask": mask}, acts).tolist() == [True, False, False]
    assert undecided(np.zeros((3, 2)), acts).tolist() == acts.tolist()


def test_a_name_that_means_nothing_is_refused() -> None:
    with pytest.raises(UsageError, match="RandomLegal"):
        ScriptedOpponent("rlrun.worlds.scripted:RandomLega")
    with pytest.raises(UsageError, match="cannot be called"):
        ScriptedOpponent("rlrun.worlds.scripted:_FULL")


def no_action(observation: np.ndarray) -> None:
    """Forgets to return one."""


def test_what_a_scripted_opponent_does_wrong_is_told_as_its_own() -> None:
    observations, noise = np.zeros((2, 4), np.float32), np.zeros(2, np.float32)
    told = r"RandomLegal raised:\n(.|\n)*moves by the action_mask of a Dict observation, and there is none"
    with pytest.raises(TrainingFailed, match=told):
        ScriptedOpponent("rlrun.worlds.scripted:RandomLegal").decide(observations, noise, [0, 1])
    with pytest.raises(TrainingFailed, match="no_action must return an action, not None"):
        ScriptedOpponent(f"{__name__}:no_action").decide(observations, noise, [1])
