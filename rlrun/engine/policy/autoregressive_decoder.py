"""Decoder of autoregressive actions: each component of an action is conditioned on the earlier ones (torch)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from typing_extensions import override

from rlrun.engine.nn.acting import ActingNetwork
from rlrun.engine.nn.encoders import ACTIVATIONS, HIDDEN_GAIN, initialize_orthogonally
from rlrun.engine.nn.model_config import ModelConfig
from rlrun.engine.nn.network_spec import Head
from rlrun.engine.nn.parameter_slot import ParameterSlot
from rlrun.engine.policy.action_spaces.autoregressive import CHAIN, AutoregressiveOutputs, chain_parts, encoded_width
from rlrun.engine.policy.action_spaces.discrete import DiscreteActions
from rlrun.engine.policy.action_spaces.product import Part
from rlrun.engine.policy.decoder import Decoder

if TYPE_CHECKING:
    from rlrun.engine.policy.action_spaces.make import AnyActions

FIRST_GAIN = 0.01
"""Initial gain of the correction layers: at first, components are nearly independent of earlier ones."""


def chain_head(actions: AnyActions, model: ModelConfig) -> Head:
    """Describes the network head `chain`, which feeds the layers that condition action components on earlier ones.

    Raises:
        UsageError: The action has only one component.
    """
    hidden = (len(chain_parts(actions)) - 1) * model.decoder_width
    return Head(CHAIN, "chain_head", hidden, gain=HIDDEN_GAIN)


def autoregressive_decoder(actions: AnyActions, model: ModelConfig, seed: int) -> Autoregressive:
    """Creates the autoregressive decoder for a policy's action space.

    Args:
        actions: The policy's action space.
        model: The network's settings.
        seed: Seed of the initial parameters.
    """
    return Autoregressive(actions, chain_parts(actions), model, model.decoder_width, seed=seed)


class Autoregressive(Decoder):
    """Torch module that turns two network heads into distributions of action components, each given the earlier ones.

    The head `outputs` parametrizes each component on its own; the head `chain` feeds the layers that correct these
    parameters, given the earlier components.

    Args:
        actions: The policy's action space.
        parts: Components of an action, in sampling order.
        model: Settings with the activation and the initialization.
        hidden: H, width of each hidden layer.
        seed: Seed of the initial parameters.
    """

    heads = ("outputs", CHAIN)

    def __init__(
        self,
        actions: AnyActions,
        parts: Sequence[Part],
        model: ModelConfig,
        hidden: int,
        *,
        seed: int,
    ) -> None:
        super().__init__()
        self.actions = actions
        self.parts = tuple(parts)
        self.model = model
        widths = [encoded_width(part) for part in parts]
        behind = range(1, len(parts))
        self.before = nn.ModuleList(nn.Linear(sum(widths[:i]), hidden, bias=False) for i in behind)
        self.given = nn.ModuleList(nn.Linear(hidden, parts[i].outputs.stop - parts[i].outputs.start) for i in behind)
        if model.orthogonal_init:
            generator = torch.Generator().manual_seed(seed)
            initialize_orthogonally(self.before, HIDDEN_GAIN, generator)
            initialize_orthogonally(self.given, FIRST_GAIN, generator)
        self.activation = ACTIVATIONS[model.activation]()

    @override
    def forward(self, heads: Mapping[str, Tensor], columns: Mapping[str, Any]) -> Tensor:
        """Returns the parameters of each action component's distribution, given the earlier components in the batch.

        The result is [S, L, K] for S sequences of L steps.
        """
        alone, end = heads["outputs"], self.actions.num_outputs - self.actions.num_log_stds
        hidden, actions = heads[CHAIN].chunk(len(self.parts) - 1, -1), columns["actions"]
        before = torch.cat([_encoded(part, actions) for part in self.parts], -1)
        outputs = {self.parts[0].outputs.start: alone[..., self.parts[0].outputs]}
        for i, part in enumerate(self.parts[1:]):
            seen = self.before[i](before[..., : self.before[i].in_features])
            given = self.given[i](self.activation(hidden[i] + seen))
            outputs[part.outputs.start] = alone[..., part.outputs] + given
        return torch.cat([*(outputs[start] for start in sorted(outputs)), alone[..., end:]], -1)

    @override
    def acting(self, network: ActingNetwork, slots: Mapping[str, ParameterSlot]) -> ActingNetwork:
        """Creates the NumPy network that samples the components of an action in order; its weights are loaded later."""
        return AutoregressiveOutputs(
            network,
            self.parts,
            self.actions.action_shape,
            self.actions.action_dtype,
            self.model.activation,
            slots,
        )


def _encoded(part: Part, actions: Tensor) -> Tensor:
    """Encodes a part as input to later parts, [S, L, width]: one-hot if Discrete, else raw numbers."""
    own = actions[..., part.columns]
    if isinstance(part.actions, DiscreteActions):
        return (own == torch.arange(part.actions.num_outputs, device=own.device)).float()
    return own.float()
