"""Autoregressive decoder for the learner: the counterpart of `action_spaces.autoregressive` (torch)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from typing_extensions import override

from rlrun.engine.nn.acting import ActingNetwork
from rlrun.engine.nn.encoders import ACTIVATIONS, HIDDEN_GAIN, initialize_orthogonally
from rlrun.engine.nn.model_config import ModelConfig
from rlrun.engine.nn.parameter_slot import ParameterSlot
from rlrun.engine.policy.action_spaces.autoregressive import CHAIN, AutoregressiveOutputs, encoded_width
from rlrun.engine.policy.action_spaces.discrete import DiscreteActions
from rlrun.engine.policy.action_spaces.make import AnyActions
from rlrun.engine.policy.action_spaces.product import Part
from rlrun.engine.policy.decoder import Decoder

FIRST_GAIN = 0.01
"""Init gain of the output layers of the corrections: initially, parts are nearly independent of previous parts."""


class Autoregressive(Decoder):
    """Autoregressive decoder: from heads `outputs` and `chain` to outputs of each part given the previous parts.

    Args:
        actions: The policy's action space.
        parts: Parts of an action, first to last.
        model: Settings with the activation and the initialisation.
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
        """Outputs of the parts' conditional distributions given the batch's actions (teacher forcing), [S, L, K]."""
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
        """Creates the acting network that samples the parts in order, with weights not yet loaded."""
        return AutoregressiveOutputs(
            network,
            self.parts,
            self.actions.action_shape,
            self.actions.action_dtype,
            self.model.activation,
            slots,
        )


def _encoded(part: Part, actions: Tensor) -> Tensor:
    """Encoding of a part as input to later parts, [S, L, width]: one-hot for Discrete, raw numbers for others."""
    own = actions[..., part.columns]
    if isinstance(part.actions, DiscreteActions):
        return (own == torch.arange(part.actions.num_outputs, device=own.device)).float()
    return own.float()
