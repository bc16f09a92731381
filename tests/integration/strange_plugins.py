"""Algorithms with the mistakes of a beginner, for tests that run them in processes of their own."""

from __future__ import annotations

import sys
from typing import Any

from rlrun.algorithm import Algorithm
from rlrun.algorithms.ppo import PPO
from rlrun.learner.objective import Objective


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
