"""Q policies: the value of every action, of which the largest is taken (torch)."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import gymnasium
import torch
from torch import Tensor, nn
from torch.func import functional_call

from rlrun.data.sample_batch import SampleBatch
from rlrun.data.tree import map_tree
from rlrun.errors import UsageError
from rlrun.nn.dense_net import DenseNet
from rlrun.nn.model_config import ModelConfig
from rlrun.nn.observation_leaves import observation_leaves
from rlrun.nn.q_net import QNet
from rlrun.policy.action_space import CategoricalActions
from rlrun.policy.flat_parameters import FlatParameters
from rlrun.policy.policy import Policy
from rlrun.policy.q_behavior import DenseQ, EpsilonSpread, QBehavior, QForward


@dataclass(frozen=True)
class QNetworks:
    """What a loss of a Q policy is a function of: the network, and its target, to be run on what the loss chooses."""

    module: nn.Module
    views: Mapping[str, Tensor]
    target_views: Mapping[str, Tensor]

    def values(self, observations: Any) -> Tensor:
        """Returns the values of all actions in observations [S, L, ...], [S, L, A]."""
        return self._run(self.views, observations)

    def target_values(self, observations: Any) -> Tensor:
        """Returns what the target network says of them, without gradient."""
        with torch.no_grad():
            return self._run(self.target_views, observations)

    def _run(self, views: Mapping[str, Tensor], observations: Any) -> Tensor:
        flat = map_tree(lambda leaf: leaf.flatten(0, 1), observations)
        rows, length = next(iter(leaf_shapes(observations)))
        values: Tensor = functional_call(self.module, dict(views), (flat,)).float()
        return values.view(rows, length, -1)


def leaf_shapes(tree: Any) -> list[tuple[int, int]]:
    """Returns the two leading dimensions of every leaf of a tree."""
    found: list[tuple[int, int]] = []
    map_tree(lambda leaf: found.append(tuple(leaf.shape[:2])), tree)
    return found


class QPolicy(Policy):
    """A network that says what each of a finite number of actions is worth.

    Attributes:
        spread: Gives each column of the workers an `epsilon` of its own; None for the same everywhere.
        records_values: Whether fragments tell what every action was worth.
    """

    spread: EpsilonSpread | None = None
    records_values: bool = False

    def __init__(
        self,
        observation_space: gymnasium.Space[Any],
        action_space: gymnasium.Space[Any],
        model: ModelConfig,
        *,
        normalize_observations: bool,
        seed: int,
    ) -> None:
        """Builds the network for the spaces.

        Raises:
            UsageError: If actions are not a finite number of choices.
        """
        if not isinstance(action_space, gymnasium.spaces.Discrete):
            raise UsageError(f"a Q policy chooses among a finite number of actions (Discrete), not in {action_space}")
        self.leaves = observation_leaves(observation_space)
        self.action_model = CategoricalActions(action_space)
        self.normalize_observations = normalize_observations
        self.module: nn.Module = QNet(self.leaves, self.action_model.num_outputs, model, seed)
        self.parameters = FlatParameters(self.module)

    def outputs(
        self, views: Mapping[str, Tensor], batch: SampleBatch, target_views: Mapping[str, Tensor] | None = None
    ) -> QNetworks:
        """Returns the networks."""
        return QNetworks(self.module, views, views if target_views is None else target_views)

    def behavior(self) -> QBehavior:
        """Returns a NumPy mirror for dense networks, a copy of the module for others."""
        return QBehavior(
            self._forward(),
            self.action_model,
            self.leaves,
            self.normalize_observations,
            spread=self.spread,
            records_values=self.records_values,
        )

    def _forward(self) -> QForward:
        module, table = self.module, self.parameters
        if not (isinstance(module, QNet) and module.is_dense):
            from rlrun.policy.torch_behavior import TorchQ

            return TorchQ(copy.deepcopy(module))
        layers = [*table.dense_layers(module.trunk, "trunk"), *table.dense_layers(module.head, "head")]
        return DenseQ(self.leaves, DenseNet(layers))
