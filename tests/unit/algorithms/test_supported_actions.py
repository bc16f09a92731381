"""Each algorithm's policy takes exactly the kinds of actions that the algorithm declares."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium import Space
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Tuple

from rlrun.engine.algorithm import Algorithm
from rlrun.engine.data.space_kinds import action_kinds
from rlrun.engine.envs.spaces import Spaces
from rlrun.engine.messages.errors import SpecError, UsageError
from rlrun.engine.settings.registry import BUILT_IN, algorithm_class

ACTIONS: tuple[Space[Any], ...] = (
    Discrete(2),
    MultiDiscrete([2, 2]),
    MultiBinary(2),
    Box(-1, 1, (2,)),
    Box(-np.inf, np.inf, (2,)),
    Dict({"a": Discrete(2)}),
    Tuple([Discrete(2), Box(-1, 1, (1,))]),
)
OF_TABLES = ("q_learning", "value_iteration")
MADE_OTHERWISE = ("mappo", "maddpg", "qmix", "vdn", "slateq", "archer", "alphazero", "value_iteration")
"""Algorithms that need special worlds or observations."""


def smallest_algorithm(name: str) -> Algorithm[Any]:
    """An algorithm with the smallest networks that its settings allow."""
    found: type[Algorithm[Any]] = algorithm_class(name)
    try:
        return found(model={"hiddens": [2]})
    except SpecError:
        return found()


def supports(algorithm: Algorithm[Any], observation: Space[Any], action: Space[Any]) -> bool:
    try:
        algorithm.policy(Spaces(observation, action), 0)
    except UsageError:
        return False
    return True


@pytest.mark.parametrize("name", [name for name in BUILT_IN if name not in MADE_OTHERWISE])
def test_an_algorithm_supports_exactly_the_action_spaces_it_declares(name: str) -> None:
    algorithm, observation = smallest_algorithm(name), Discrete(2) if name in OF_TABLES else Box(-1, 1, (2,))
    declared = [action for action in ACTIONS if {*algorithm.acts_in} & {*action_kinds(action)}]
    assert [action for action in ACTIONS if supports(algorithm, observation, action)] == declared
