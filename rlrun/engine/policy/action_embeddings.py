"""Action embeddings: logits or Q values as dot products of observation and action features (NumPy).

The observation lists the available actions, each with F features. Observation and actions are embedded in D
dimensions. An action's logit or value is the scaled dot product of both embeddings, sum_d q_d k_d / sqrt(D). The
outputs are equivariant to permutations of the listed actions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Dict, Discrete
from typing_extensions import override

from rlrun.engine.data.action_masks import ACTION_MASK
from rlrun.engine.messages.errors import UsageError
from rlrun.engine.nn.acting import ActingNetwork, TransformedOutputs
from rlrun.engine.nn.dense_net import DenseNet
from rlrun.engine.nn.model_config import Activation
from rlrun.engine.nn.parameter_slot import ParameterSlot
from rlrun.engine.policy.action_spaces.action_space import Floats


def check_action_embeddings(
    observation_space: gymnasium.Space[Any], action_space: gymnasium.Space[Any], key: str
) -> None:
    """Validates that the observation entry `key` is a table of features, one row per discrete action.

    Raises:
        UsageError: Actions are not Discrete, the entry `key` is not a Box [A, F], or nothing else is observed.
    """
    if not isinstance(action_space, Discrete):
        raise UsageError(f"model.action_embeddings needs a Discrete action space, but this env has {action_space}")
    parts = observation_space.spaces if isinstance(observation_space, Dict) else {}
    space, number = parts.get(key), int(action_space.n)
    if not isinstance(space, Box) or len(space.shape) != 2 or space.shape[0] != number:
        found = f"is {space}" if key in parts else "is missing"
        raise UsageError(
            f"model.action_embeddings: the observation's part {key!r} {found}, but {action_space} needs a Box "
            f"of shape ({number}, F) with the features of each action, zeros for unavailable ones"
        )
    if not set(parts) - {key, ACTION_MASK}:
        raise UsageError(
            f"model.action_embeddings: the observation contains only the action features {key!r}: add a part "
            "that describes the state"
        )


class EmbeddedOutputs(TransformedOutputs):
    """Acting network that scores actions by the scaled dot product of action and observation embeddings.

    Args:
        network: Inner network, whose head `outputs` is the embedding of the observation, [B, D].
        key: Observation entry with F features of each of K actions, [B, K, F] for a batch of B.
        activation: Activation of the hidden layer of the action embedding.
        slots: Offset and shape of each parameter of the action embedding in the flat vector that `load` receives, by
            name.
    """

    def __init__(
        self, network: ActingNetwork, key: str, activation: Activation, slots: Mapping[str, ParameterSlot]
    ) -> None:
        super().__init__(network)
        self.key = key
        self.slots = dict(slots)
        self._embed = DenseNet([("hidden", activation), ("embedding", None)])

    @override
    def load(self, flat: Floats) -> None:
        """Loads the weights of the network and the action embedding from one flat vector."""
        super().load(flat)

        def parameter(name: str) -> Floats:
            slot = self.slots[name]
            return flat[slot.offset : slot.offset + slot.size].reshape(slot.shape)

        self._embed.load(parameter)

    @override
    def transformed(self, outputs: Floats, inputs: Mapping[str, Any]) -> Floats:
        """Returns the logits or Q values of the K actions listed in each of B observations, [B, K]."""
        embedded = self._embed(inputs["obs"][self.key].astype(np.float32, copy=False))
        fit: Floats = np.matmul(embedded, outputs[:, :, None])[:, :, 0] / np.float32(np.sqrt(outputs.shape[1]))
        return fit
