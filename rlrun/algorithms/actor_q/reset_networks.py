"""Resets of networks at intervals, against the primacy bias."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from typing_extensions import override

from rlrun.engine.flow.flow import StatefulOperator
from rlrun.engine.flow.operators.minibatches import TrainedMinibatch
from rlrun.engine.functional.seeding import child_seed

if TYPE_CHECKING:
    from rlrun.engine.envs.spaces import Spaces
    from rlrun.engine.flow.trainee import Trainee
    from rlrun.engine.policy.policy import Policy


class ResetNetworks(StatefulOperator):
    """Reset of all networks and optimizers after every `every` minibatches; the replay buffer keeps its steps.

    Args:
        trainee: The trainee, whose learner has the networks.
        policy: Makes a policy with new parameters from spaces and a seed.
        every: Minibatches between two resets.

    Source:
        Nikishin et al., "The primacy bias in deep reinforcement learning", arXiv:2205.07802, section 4.
    """

    def __init__(self, trainee: Trainee, policy: Callable[[Spaces, int], Policy], every: int) -> None:
        self.trainee = trainee
        self.policy = policy
        self.every = every
        self._minibatches = 0

    @override
    def settings(self) -> dict[str, Any]:
        return {"every": self.every}

    @override
    def __call__(self, item: TrainedMinibatch) -> TrainedMinibatch:
        """Counts an item's minibatches, and resets after the last one where a reset is due."""
        before = self._minibatches // self.every
        self._minibatches += item.number
        number = self._minibatches // self.every
        if number > before:
            self._reset(number)
        return item

    def _reset(self, number: int) -> None:
        learner = self.trainee.learner
        made = self.policy(self.trainee.spaces, child_seed(self.trainee.seed, "reset", number))
        first = made.parameters.gather(made.module).numpy()
        learner.load_flat(first)
        learner.load_target(first)
        learner.load_optimizer_state({name: np.zeros_like(part) for name, part in learner.optimizer_state().items()})

    @override
    def state(self) -> dict[str, Any]:
        """Returns the number of minibatches so far."""
        return {"minibatches": self._minibatches}

    @override
    def load_state(self, state: dict[str, Any]) -> None:
        self._minibatches = int(state["minibatches"])
