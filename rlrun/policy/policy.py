"""The learning side of a policy."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from rlrun.data.sample_batch import SampleBatch
from rlrun.policy.behavior import BehaviorPolicy
from rlrun.policy.flat_parameters import FlatParameters


class Policy(ABC):
    """A family of policies: one forward pass of its module on a batch, and what a worker needs in order to act like it.

    Attributes:
        module: The network, a template: its parameters are taken from the learner's flat vector.
        parameters: Where each of them lies in that vector.
        leaves: The parts of an observation, a tree of `ObservationLeaf`.
        estimates: The values that it estimates: `action_values`, as the outputs of its behavior policy [B, A];
            `state_values`, as `values` of its outputs; None for none.
    """

    estimates: ClassVar[Literal["action_values", "state_values"] | None] = None
    module: nn.Module
    parameters: FlatParameters
    leaves: Any

    @property
    def acting_range(self) -> tuple[int, int]:
        """Where the parameters that act lie in the flat vector, as (offset, size): all of them unless a family says."""
        return 0, self.parameters.size

    @property
    def descended(self) -> str:
        """Prefix of the names of the parameters that `Algorithm.loss` descends: all unless a family says."""
        return ""

    @abstractmethod
    def outputs(
        self, views: Mapping[str, Tensor], batch: SampleBatch, target_views: Mapping[str, Tensor] | None = None
    ) -> Any:
        """Arguments of this family's losses: one forward pass over the rows, or networks that make passes over them.

        Args:
            views: The module's parameters by name.
            batch: Columns [S, L, ...].
            target_views: Those of the target network; None if the learner keeps none.
        """

    def draws(self, generator: np.random.Generator, rows: int, length: int) -> dict[str, NDArray[np.float32]]:
        """Returns the noise that the losses take on rows [S, L], as further columns of the batch; none by default."""
        return {}

    @abstractmethod
    def behavior(self) -> BehaviorPolicy:
        """Returns the acting side, without weights."""
