"""Base class of policies as learners use them: torch module, parameters and forward pass."""

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
    """Policy as the learner uses it: computes network outputs for losses, and creates the policy's acting side.

    Attributes:
        module: The network, whose parameters are only a template: each call receives parameters from the learner's flat
            vector (`torch.func.functional_call`).
        parameters: Slices of the module's parameters in the flat vector.
        leaves: Observation entries and how each enters the network, a tree of `ObservationLeaf`.
        estimates: Kind of value function. With `action_values`, the acting policy's outputs are Q values. With
            `state_values`, the result of `outputs` has an attribute `values`. None if the policy has no value function.
        acts_on_device: Whether the policy can use its torch modules to act in a tensor env (`TensorActor`).
    """

    estimates: ClassVar[Literal["action_values", "state_values"] | None] = None
    acts_on_device: ClassVar[bool] = False
    module: nn.Module
    parameters: FlatParameters
    leaves: Any

    @property
    def acting_range(self) -> tuple[int, int]:
        """Offset and size of the part of the flat parameter vector that acting needs; all parameters by default."""
        return 0, self.parameters.size

    @property
    def descended(self) -> str:
        """Name prefix of the parameters that the algorithm's main loss trains; "" for all, the default."""
        return ""

    @abstractmethod
    def outputs(
        self, views: Mapping[str, Tensor], batch: SampleBatch, target_views: Mapping[str, Tensor] | None = None
    ) -> Any:
        """Returns network outputs on a batch, in the form that losses expect.

        Args:
            views: The module's parameters by name.
            batch: Columns of S sequences with L steps, [S, L, ...].
            target_views: The target network's parameters by name; None without a target network.
        """

    def draws(self, generator: np.random.Generator, rows: int, length: int) -> dict[str, NDArray[np.float32]]:
        """Draws the random numbers that losses need for S sequences of L steps; returns them as columns for the batch.

        Data-parallel learners draw the columns of the whole minibatch, and split the S rows among themselves; a column
        with one row is shared by all steps of the minibatch. By default there are no such columns.
        """
        return {}

    @abstractmethod
    def behavior(self) -> BehaviorPolicy:
        """Creates the policy's acting side for rollout workers; its weights are loaded later."""
