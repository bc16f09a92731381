"""What is told of updates that are compiled in processes which can say nothing before it is done."""

from __future__ import annotations

from typing import Any

import pytest

from rlrun.algorithm import Algorithm
from rlrun.algorithms.a3c import A3C
from rlrun.algorithms.async_dqn import AsyncDQN
from rlrun.algorithms.ddppo import DDPPO
from rlrun.algorithms.gorila import Gorila
from rlrun.algorithms.ppo import PPO


@pytest.mark.parametrize("algorithm_class", [A3C, AsyncDQN, DDPPO, Gorila])
@pytest.mark.parametrize(("num_workers", "is_compiled"), [(0, True), (2, False), (2, True)])
def test_workers_that_compile_the_update_are_announced_before_they_do(
    algorithm_class: type[Algorithm[Any]], num_workers: int, is_compiled: bool
) -> None:
    announced: list[str] = []
    algorithm = algorithm_class("CartPole-v1", {"num_workers": num_workers}, announce=announced.append)
    algorithm.is_compiled = is_compiled
    algorithm.plan()
    assert ["compiles the update" in text for text in announced] == [True] * (is_compiled and num_workers > 0)


def test_learners_of_their_own_that_compile_the_update_are_announced_before_they_do() -> None:
    announced: list[str] = []
    algorithm = PPO("CartPole-v1", {"num_learners": 2}, announce=announced.append)
    algorithm.is_compiled = True
    algorithm.remote_learner()
    assert ["compiles the update" in text for text in announced] == [True]
