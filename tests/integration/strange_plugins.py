"""Algorithms with beginners' mistakes, for tests that run them in separate processes."""

from __future__ import annotations

import sys
from typing import Any

from rlrun.algorithms.ppo import PPO, PPOConfig
from rlrun.engine.algorithm import Algorithm
from rlrun.engine.learner.objective import Objective
from rlrun.engine.policy.policy import Policy
from rlrun.experiments.cluster.ray_session import end_of_ray


class ExitsInLoss(PPO):
    """Ends the process in its loss."""

    def loss(self, outputs: Any, batch: Any, scheduled: Any) -> Any:
        sys.exit(0)


class ExitsInLearn(PPO):
    """Ends the process where its dataflow is made."""

    def learn(self, items: Any, trainee: Any) -> Any:
        sys.exit(0)


class ExitsInPolicy(PPO):
    """Ends the process where its policy is made."""

    def policy(self, spaces: Any, seed: int) -> Any:
        sys.exit(0)


class EndsRay(PPO):
    """Fails in its loss as trials do below which Ray ends."""

    def loss(self, outputs: Any, batch: Any, scheduled: Any) -> Any:
        raise end_of_ray("raylet")


class WithoutConfig(Algorithm[Any]):
    """Names no class of settings."""


class LossReturnsDict(PPO):
    """Returns from its loss a mapping in place of a Loss."""

    def loss(self, outputs: Any, batch: Any, scheduled: Any) -> Any:
        return {"loss": 1.0}


class ObjectivesReturnNone(PPO):
    """Forgets to return its objectives."""

    def objectives(self, policy: Any) -> Any:
        return None


class PolicyReturnsNone(PPO):
    """Forgets to return its policy."""

    def policy(self, spaces: Any, seed: int) -> Any:
        return None


class LearnReturnsNone(PPO):
    """Forgets to return its dataflow."""

    def learn(self, items: Any, trainee: Any) -> Any:
        return None


class CollectReturnsNone(PPO):
    """Forgets to return its stream."""

    def collect(self, trainee: Any) -> Any:
        return None


class WithoutParameters(PPO):
    """Its objective is over parameters that there are not."""

    def objectives(self, policy: Any) -> Any:
        return [Objective("loss", self.loss, parameters="nowhere.")]


class WithoutMethods(Algorithm[PPOConfig]):
    """Says neither how it learns nor what it minimises."""

    Config = PPOConfig


class RaisesInInit(PPO):
    """Raises where it is made."""

    def __init__(self, config: Any) -> None:
        raise ValueError("my settings")


class ReadsWhatThereIsNot(PPO):
    """Asks the trainee for what it does not have."""

    def learn(self, items: Any, trainee: Any) -> Any:
        return trainee.nothing_here


class InitWithoutConfig(PPO):
    """Takes no settings."""

    def __init__(self) -> None:
        pass


class InitWithoutSuper(PPO):
    """Keeps its settings to itself."""

    def __init__(self, config: Any) -> None:
        self.mine = config


class LearnWithoutTrainee(PPO):
    """Takes too few arguments where its dataflow is made."""

    def learn(self, items: Any) -> Any:  # type: ignore[override]
        return items


class PolicyWithoutSpaces(PPO):
    """Takes too few arguments where its policy is made."""

    def policy(self) -> Any:  # type: ignore[override]
        return None


class LossOfOutputs(PPO):
    """Takes too few arguments in its loss."""

    def loss(self, outputs: Any) -> Any:  # type: ignore[override]
        return None


class HalfAPolicy(Policy):
    """Lacks all methods of a policy."""

    def __init__(self, *spaces: Any, **settings: Any) -> None:
        pass


class MakesHalfAPolicy(PPO):
    """Names a class of policies that lacks methods."""

    policy_family = "strange_plugins:HalfAPolicy"
    policy = Algorithm.policy


class TakesNothing:
    """An operator that takes no item."""

    def __call__(self) -> None:
        """Does nothing."""


class OperatesOnNothing(PPO):
    """Its dataflow has an operator that cannot be called."""

    def learn(self, items: Any, trainee: Any) -> Any:
        return super().learn(items.for_each(TakesNothing()), trainee)
