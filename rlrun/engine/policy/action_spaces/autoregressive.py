"""Autoregressive action distributions: components of an action sampled in order, each given the earlier ones (NumPy).

The network's head `outputs` parametrizes each component independently of the others. For each component except the
first, a hidden layer computes a correction from the earlier components; the head `chain` holds the observation's
contribution to these layers. The corrected outputs parametrize the conditional distributions given the earlier
components. Their product is the joint distribution, with exact log-probability.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from rlrun.engine.messages.errors import UsageError
from rlrun.engine.nn.acting import ActingNetwork, Heads, WrappedNetwork
from rlrun.engine.nn.dense_net import ACTIVATIONS
from rlrun.engine.nn.model_config import Activation
from rlrun.engine.nn.parameter_slot import ParameterSlot
from rlrun.engine.policy.action_masks import masked
from rlrun.engine.policy.action_spaces.action_space import Actions, Floats
from rlrun.engine.policy.action_spaces.discrete import DiscreteActions
from rlrun.engine.policy.action_spaces.multi_discrete import MultiDiscreteActions
from rlrun.engine.policy.action_spaces.product import Part, ProductActions

if TYPE_CHECKING:
    from rlrun.engine.policy.action_spaces.make import AnyActions

CHAIN = "chain"
"""Head with the observation's inputs to the hidden layers of all parts except the first, [B, (P - 1) * H]."""


def chain_parts(actions: AnyActions) -> tuple[Part, ...]:
    """Splits an action space into the components that an autoregressive policy samples one after another.

    Each choice of a MultiDiscrete is one component. All bits of a MultiBinary form one component, as do all numbers of
    a Box.

    Raises:
        UsageError: If the action has only one component.
    """
    parts: list[Part] = []
    for part in _parts_of(actions):
        parts += _choices_of(part) if isinstance(part.actions, MultiDiscreteActions) else [part]
    if len(parts) < 2:
        raise UsageError(
            "model.autoregressive needs MultiDiscrete, Tuple or Dict actions with several parts, but this env's "
            "actions have only one; leave it out"
        )
    return tuple(parts)


def _parts_of(actions: AnyActions) -> Sequence[Part]:
    if isinstance(actions, ProductActions):
        return actions.parts
    outputs = actions.num_outputs - actions.num_log_stds
    (columns,) = actions.action_shape or (1,)
    return [
        Part(
            actions,
            columns=slice(0, columns),
            noise=slice(0, actions.num_noise),
            outputs=slice(0, outputs),
            log_stds=slice(outputs, actions.num_outputs),
        )
    ]


def _choices_of(part: Part) -> list[Part]:
    """Splits a MultiDiscrete part into one part per choice."""
    assert isinstance(part.actions, MultiDiscreteActions)
    found, first = [], 0
    for number, size in enumerate(part.actions.sizes):
        column = part.columns.start + number
        found.append(
            Part(
                DiscreteActions(gymnasium.spaces.Discrete(size)),
                columns=slice(column, column + 1),
                noise=slice(part.noise.start + first, part.noise.start + first + size),
                outputs=slice(part.outputs.start + first, part.outputs.start + first + size),
                log_stds=part.log_stds,
            )
        )
        first += size
    return found


def encoded_width(part: Part) -> int:
    """Returns the length of the vector that represents a component as an input for later components.

    Discrete components are encoded as one-hot vectors; others are used as they are.
    """
    width: int = part.columns.stop - part.columns.start
    return part.actions.num_outputs if isinstance(part.actions, DiscreteActions) else width


class AutoregressiveOutputs(WrappedNetwork):
    """Acting network that samples the components of an action in order, each given the components before it.

    Args:
        network: The inner network, with the heads `outputs` and `chain`.
        parts: The components of an action, in sampling order.
        action_shape: Shape of one action, (D,).
        action_dtype: NumPy type of the actions.
        activation: Activation of the decoder's hidden layers.
        slots: Offset and shape of each of the decoder's parameters in the flat vector that `load` receives, by name.
    """

    def __init__(
        self,
        network: ActingNetwork,
        parts: Sequence[Part],
        action_shape: tuple[int, ...],
        action_dtype: type[np.generic],
        activation: Activation,
        slots: Mapping[str, ParameterSlot],
    ) -> None:
        super().__init__(network)
        self.parts = tuple(parts)
        self.action_shape = action_shape
        self.action_dtype = action_dtype
        self.activation = activation
        self.slots = dict(slots)
        self._layers: list[tuple[Floats, Floats, Floats]] = []
        self._widths = [encoded_width(part) for part in parts]

    @override
    def load(self, flat: Floats) -> None:
        """Loads the weights of the network and the autoregressive decoder from one flat vector."""
        super().load(flat)

        def parameter(name: str) -> Floats:
            slot = self.slots[name]
            return flat[slot.offset : slot.offset + slot.size].reshape(slot.shape)

        self._layers = [
            (
                np.ascontiguousarray(parameter(f"before.{i}.weight").T),
                np.ascontiguousarray(parameter(f"given.{i}.weight").T),
                parameter(f"given.{i}.bias"),
            )
            for i in range(len(self.parts) - 1)
        ]

    def __call__(
        self,
        inputs: Mapping[str, Any],
        state: Floats | None = None,
        episode_starts: NDArray[np.bool_] | None = None,
        noise: Floats | None = None,
    ) -> tuple[Heads, Floats | None]:
        """Runs one step and samples actions from noise [B, ...]; without noise, takes the mode of each part.

        The heads also hold `actions` [B, D], the sampled actions on which the outputs are conditioned.
        """
        heads, after = self.network(inputs, state, episode_starts)
        chain = heads.pop(CHAIN)
        outputs = masked(heads["outputs"].copy(), inputs["obs"])
        actions: Actions = np.empty_like(outputs, self.action_dtype, shape=(len(outputs), *self.action_shape))
        before: Floats = np.zeros_like(outputs, shape=(len(outputs), sum(self._widths)))
        activate = ACTIVATIONS[self.activation]
        hidden = chain.reshape(len(outputs), len(self.parts) - 1, -1)
        end = 0
        for i, (part, width) in enumerate(zip(self.parts, self._widths, strict=True)):
            if i:
                weights, given, bias = self._layers[i - 1]
                outputs[:, part.outputs] += activate(hidden[:, i - 1] + before[:, :end] @ weights) @ given + bias
            described = part.own_outputs(outputs)
            own = (
                part.actions.mode(described) if noise is None else part.actions.sample(described, noise[:, part.noise])
            )
            actions[:, part.columns] = own.reshape(len(outputs), -1)
            if isinstance(part.actions, DiscreteActions):
                before[np.arange(len(outputs)), end + own] = 1.0
            else:
                before[:, end : end + width] = own
            end += width
        return {**heads, "outputs": outputs, "actions": actions}, after
