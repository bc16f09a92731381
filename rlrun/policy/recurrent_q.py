"""Q policies with memory: the value of every action given all that was seen in the episode (torch)."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.func import functional_call

from rlrun.data.sample_batch import SampleBatch
from rlrun.data.tree import map_tree
from rlrun.errors import UsageError
from rlrun.nn.dense_net import DenseNet
from rlrun.nn.observation_leaves import observation_leaves
from rlrun.nn.recurrent import Lstm, LstmLayer
from rlrun.nn.recurrent_model import RecurrentModelConfig
from rlrun.nn.recurrent_q_net import RecurrentQNet
from rlrun.policy.action_space import CategoricalActions
from rlrun.policy.flat_parameters import FlatParameters
from rlrun.policy.policy import Policy
from rlrun.policy.recurrent_q_behavior import DenseRecurrentQ, Floats, RecurrentQBehavior, RecurrentQForward


@dataclass(frozen=True)
class RecurrentQNetworks:
    """What a loss of a recurrent Q policy is a function of: the network, and its target, to be run over rows."""

    module: RecurrentQNet
    views: Mapping[str, Tensor]
    target_views: Mapping[str, Tensor]

    def unrolled(self, batch: SampleBatch, burn_in: int) -> tuple[Tensor, Tensor]:
        """Returns what the actions are worth behind the burn-in, to the network and to its target.

        Both networks run over the burn-in from the stored memory, without gradient: that brings a memory which older
        weights left behind nearer to what the present ones would remember (Kapturowski et al., "Recurrent experience
        replay in distributed reinforcement learning", ICLR 2019, section 3).

        Args:
            batch: Columns `obs` [S, burn_in + L, ...], `starts` [S, burn_in + L] and `memory` [S, 2 H].
            burn_in: Steps at the beginning of each row that only bring up the memory.

        Returns:
            Values [S, L, A] of the network, through which gradients flow, and of the target network.
        """
        obs, starts, memory = batch["obs"], batch["starts"], batch["memory"]
        with torch.no_grad():
            target_values, _ = self._run(self.target_views, obs, starts, memory)
            if burn_in:
                before = map_tree(lambda leaf: leaf[:, :burn_in], obs)
                _, memory = self._run(self.views, before, starts[:, :burn_in], memory)
        behind = map_tree(lambda leaf: leaf[:, burn_in:], obs)
        values, _ = self._run(self.views, behind, starts[:, burn_in:], memory)
        return values, target_values[:, burn_in:]

    def _run(
        self, views: Mapping[str, Tensor], observations: Any, starts: Tensor, memory: Tensor
    ) -> tuple[Tensor, Tensor]:
        values, memory = functional_call(self.module, dict(views), (observations, starts, memory))
        return values.float(), memory


class RecurrentQPolicy(Policy):
    """A network with an LSTM that says what each of a finite number of actions is worth."""

    def __init__(
        self,
        observation_space: gymnasium.Space[Any],
        action_space: gymnasium.Space[Any],
        model: RecurrentModelConfig,
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
        self.module: RecurrentQNet = RecurrentQNet(self.leaves, self.action_model.num_outputs, model, seed)
        self.parameters = FlatParameters(self.module)

    def outputs(
        self, views: Mapping[str, Tensor], batch: SampleBatch, target_views: Mapping[str, Tensor] | None = None
    ) -> RecurrentQNetworks:
        """Returns the networks."""
        return RecurrentQNetworks(self.module, views, views if target_views is None else target_views)

    def behavior(self) -> RecurrentQBehavior:
        """Returns a NumPy mirror for dense networks, a copy of the module for others."""
        return RecurrentQBehavior(
            self._forward(), self.module.width, self.action_model, self.leaves, self.normalize_observations
        )

    def _forward(self) -> RecurrentQForward:
        module, table = self.module, self.parameters
        if not module.is_dense:
            return TorchRecurrentQ(copy.deepcopy(module))
        inputs = table.slot("lstm_inputs.weight")
        layer = LstmLayer(
            inputs=inputs.offset,
            bias=table.slot("lstm_inputs.bias").offset,
            memory=table.slot("lstm_memory.weight").offset,
            shape=(module.width, inputs.shape[1]),
        )
        return DenseRecurrentQ(
            self.leaves,
            DenseNet(table.dense_layers(module.trunk, "trunk")),
            Lstm(layer),
            DenseNet(table.dense_layers(module.head, "head")),
            dueling=module.dueling,
        )


class TorchRecurrentQ:
    """A network with memory in torch, on the CPU, for images."""

    def __init__(self, module: RecurrentQNet) -> None:
        """Takes the network, which is its own from here on."""
        self.module = module.cpu().requires_grad_(False)

    def load(self, flat: Floats) -> None:
        """Takes new parameters [P]."""
        torch.nn.utils.vector_to_parameters(torch.from_numpy(flat), self.module.parameters())

    def step(self, observations: Any, memory: Floats) -> tuple[Floats, Floats]:
        """Returns values [B, A] and what is remembered [B, 2 H]."""
        begins: NDArray[np.bool_] = np.zeros((len(memory), 1), np.bool_)  # what was to be forgotten is 0 already
        with torch.inference_mode():
            rows = map_tree(lambda leaf: torch.as_tensor(leaf)[:, None], observations)
            values, after = self.module(rows, torch.from_numpy(begins), torch.from_numpy(memory))
        return values[:, 0].numpy(), after.numpy()
