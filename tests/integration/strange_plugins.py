"""Algorithms with the mistakes of a beginner, for tests that run them in processes of their own."""

from __future__ import annotations

import sys
from typing import Any

from rlrun.algorithms.ppo import PPO


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
