"""The learning side of a policy."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn

from rlrun.data.sample_batch import SampleBatch
from rlrun.policy.behavior import BehaviorPolicy
from rlrun.policy.flat_parameters import FlatParameters


class Policy(ABC):
    """A family of policies: one forward pass of its module on a batch, and what a worker needs in order to act like it.

    Attributes:
        module: The network, a template: its parameters are taken from the learner's flat vector.
        parameters: Where each of them lies in that vector.
    """

    module: nn.Module
    parameters: FlatParameters

    @abstractmethod
    def outputs(self, views: Mapping[str, Tensor], batch: SampleBatch) -> Any:
        """Runs the module once on rows of experience.

        Args:
            views: The module's parameters by name.
            batch: Columns [S, L, ...].

        Returns:
            What a loss of this family is a function of.
        """

    @abstractmethod
    def behavior(self) -> BehaviorPolicy:
        """Returns the acting side, without weights."""
