"""Action masks: forbidden actions get a logit or value of -1e9, while acting (NumPy) and in losses (torch).

The policy gradient of masked logits is that of the masked distribution (Huang and Ontanon, arXiv:2006.14171, section
3): forbidden actions have probability 0 and add nothing to log-probabilities, entropy, divergence or gradient.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from rlrun.data.action_masks import FORBIDDEN, check_action_mask, mask_of
from rlrun.data.tree import map_tree
from rlrun.nn.acting import TransformedOutputs
from rlrun.nn.model_config import ModelConfig
from rlrun.nn.observation_leaf import ObservationLeaf
from rlrun.nn.observation_leaves import ObservationTree, observation_leaves
from rlrun.nn.view_leaves import view_leaves
from rlrun.policy.action_embeddings import check_action_embeddings
from rlrun.policy.action_spaces.action_space import Floats

if TYPE_CHECKING:
    from torch import Tensor

ActionMask = NDArray[Any]
"""Which actions are allowed, [B, A] of 0 and 1; of several choices side by side.

The first A of a network's outputs [B, K] are about them. An action that is a Tuple or Dict may have others behind.
"""


def policy_leaves(
    observation_space: gymnasium.Space[Any],
    action_space: gymnasium.Space[Any],
    model: ModelConfig,
    *,
    normalize_observations: bool,
) -> ObservationTree:
    """Returns the tree of `ObservationLeaf` of what a policy sees, in which an action mask is one of its actions.

    Raises:
        UsageError: If a part of an observation cannot enter a network, an encoder does not fit its part, or a mask, or
            what is to list the actions' features, is not one of the actions.
    """
    check_action_mask(observation_space, action_space)
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
        check_action_embeddings(observation_space, action_space, key)
        leaves = {**leaves, key: ObservationLeaf("actions", leaves[key].shape)}
    return view_leaves(leaves, action_space, model.views) if model.views.any else leaves


def masked(outputs: Floats, observations: Any) -> Floats:
    """Returns outputs [..., K], with -1e9 where the observations' masks forbid an action (NumPy)."""
    mask = mask_of(observations)
    if mask is None:
        return outputs
    width = mask.shape[-1]
    if width == outputs.shape[-1]:
        return np.where(mask, outputs, np.float32(FORBIDDEN))
    return np.concatenate([np.where(mask, outputs[..., :width], np.float32(FORBIDDEN)), outputs[..., width:]], -1)


def masked_tensor(outputs: Tensor, observations: Any) -> Tensor:
    """Returns outputs [..., K], with -1e9 and no gradient where the observations' masks forbid an action (torch)."""
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
    """Returns the actions [...] with the largest of values [..., A] among those that observations allow (torch).

    Values themselves stay as they are: a final observation, whose value may be a target, may allow nothing.
    """
    return masked_tensor(values, observations).argmax(-1)


class MaskedOutputs(TransformedOutputs):
    """A network whose outputs are masked by the action masks of what it observes."""

    @override
    def transformed(self, outputs: Floats, inputs: Mapping[str, Any]) -> Floats:
        """Returns masked outputs [B, A]."""
        return masked(outputs, inputs["obs"])
