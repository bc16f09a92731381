"""Action masks: forbidden actions receive a logit or value of -1e9, in acting (NumPy) and in losses (torch).

The policy gradient of masked logits equals that of the masked distribution (Huang and Ontanon, arXiv:2006.14171,
section 3). Forbidden actions have probability 0 and contribute nothing to log-probabilities, entropy, divergence or
gradient.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from rlrun.engine.data.action_masks import FORBIDDEN, check_action_mask, mask_of
from rlrun.engine.data.tree import map_tree
from rlrun.engine.messages.errors import UsageError
from rlrun.engine.nn.acting import TransformedOutputs
from rlrun.engine.nn.model_config import ModelConfig
from rlrun.engine.nn.observation_leaf import ObservationLeaf
from rlrun.engine.nn.observation_leaves import ObservationTree, has_privileges, observation_leaves
from rlrun.engine.policy.action_spaces.action_space import Floats
from rlrun.engine.settings.registry import load_internal

if TYPE_CHECKING:
    from torch import Tensor

PARTS = {
    "check of embeddings": "rlrun.engine.policy.action_embeddings:check_action_embeddings",
    "views": "rlrun.engine.nn.view_leaves:view_leaves",
}
"""Import paths of functions that only some settings need."""

ActionMask = NDArray[Any]
"""Action mask [B, A]: 1 for allowed, 0 for forbidden actions; the masks of several choices are concatenated.

A mask covers the first A of a network's outputs [B, K]. Tuple and Dict actions may have further outputs after these.
"""


def policy_leaves(
    observation_space: gymnasium.Space[Any],
    action_space: gymnasium.Space[Any],
    model: ModelConfig,
    *,
    normalize_observations: bool,
) -> ObservationTree:
    """Describes how each entry of the observation enters the policy's network; also validates the action mask.

    Returns:
        A tree of `ObservationLeaf` with the structure of the observation space.

    Raises:
        UsageError: An observation entry or its encoder is not supported, the action mask or action features do not
            match the action space, or other settings do not allow actor and critics to see different entries.
    """
    check_action_mask(observation_space, action_space)
    if has_privileges(model) and (model.shared_value or model.module is not None):
        raise UsageError(
            "model: if actor and critics see different parts of the observation, rlrun builds them without "
            "shared layers; leave out actor_sees and critic_sees, or shared_value and module"
        )
    leaves = observation_leaves(
        observation_space,
        model.observations,
        normalize=normalize_observations,
        encoders=model.encoders,
        conv=model.conv,
    )
    if model.convolves_images:
        leaves = map_tree(lambda leaf: replace(leaf, conv=None), leaves)
    key = model.action_embeddings
    if key is not None:
        load_internal(PARTS["check of embeddings"])(observation_space, action_space, key)
        leaves = {**leaves, key: ObservationLeaf("actions", leaves[key].shape)}
    if model.views.any:
        leaves = load_internal(PARTS["views"])(leaves, action_space, model.views)
    return leaves


def masked(outputs: Floats, observations: Any) -> Floats:
    """Returns network outputs [..., num_actions], with -1e9 for actions forbidden by observed action masks (NumPy)."""
    mask = mask_of(observations)
    if mask is None:
        return outputs
    width = mask.shape[-1]
    if width == outputs.shape[-1]:
        return np.where(mask, outputs, np.float32(FORBIDDEN))
    return np.concatenate([np.where(mask, outputs[..., :width], np.float32(FORBIDDEN)), outputs[..., width:]], -1)


def masked_tensor(outputs: Tensor, observations: Any) -> Tensor:
    """Returns network outputs [..., num_actions], with -1e9 and no gradient for forbidden actions (torch)."""
    import torch

    mask = mask_of(observations)
    if mask is None:
        return outputs
    forbidden = mask == 0
    width = forbidden.shape[-1]
    if width == outputs.shape[-1]:
        return outputs.masked_fill(forbidden, FORBIDDEN)
    return torch.cat([outputs[..., :width].masked_fill(forbidden, FORBIDDEN), outputs[..., width:]], -1)


def allowed_argmax(values: Tensor, observations: Any) -> Tensor:
    """Returns greedy actions [...]: in each row of `values` [..., num_actions], the best allowed action (torch).

    The function returns indices rather than masked values, because an episode's final observation may allow no action,
    and the masked value -1e9 must not become a bootstrap target.
    """
    return masked_tensor(values, observations).argmax(-1)


class MaskedOutputs(TransformedOutputs):
    """Acting network that sets the outputs of actions forbidden by the observed action mask to -1e9."""

    @override
    def transformed(self, outputs: Floats, inputs: Mapping[str, Any]) -> Floats:
        """Returns the logits or Q values [B, num_actions] of a batch, with -1e9 for forbidden actions."""
        return masked(outputs, inputs["obs"])
