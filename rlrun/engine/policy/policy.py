"""Base class of policies on the learner's side: module, parameters and forward pass."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.policy.behavior import BehaviorPolicy
from rlrun.engine.policy.flat_parameters import FlatParameters


class Policy(ABC):
    """Policy family: defines the forward pass of the networks for losses, and the behavior policy for rollout workers.

    Attributes:
        module: Template of the network, called functionally with parameters of the learner's flat vector.
        parameters: Slices of the module's parameters in the flat vector.
        leaves: The parts of an observation, a tree of `ObservationLeaf`.
        estimates: Kind of value function: `action_values`, the outputs of the behavior policy [B, A]; `state_values`,
            the attribute `values` of `outputs`; None without a value function.
    """

    estimates: ClassVar[Literal["action_values", "state_values"] | None] = None
    module: nn.Module
    parameters: FlatParameters
    leaves: Any

    @property
    def acting_range(self) -> tuple[int, int]:
        """Slice of the flat parameters needed for acting, as (offset, size); all parameters by default."""
        return 0, self.parameters.size

    @property
    def descended(self) -> str:
        """Prefix of the names of the parameters that `Algorithm.loss` trains; all parameters by default."""
        return ""

    @abstractmethod
    def outputs(
        self, views: Mapping[str, Tensor], batch: SampleBatch, target_views: Mapping[str, Tensor] | None = None
    ) -> Any:
        """Outputs of the networks on a batch, as arguments of the losses, computed at once or lazily.

        Args:
            views: The module's parameters by name.
            batch: Columns [S, L, ...].
            target_views: The target network's parameters by name; None without a target network.
        """

    def draws(self, generator: np.random.Generator, rows: int, length: int) -> dict[str, NDArray[np.float32]]:
        """Samples the noise that the losses need on rows [S, L], as additional columns of the batch.

        None by default.
        """
        return {}

    @abstractmethod
    def behavior(self) -> BehaviorPolicy:
        """Creates the behavior policy for rollout workers, whose weights are loaded later."""
