"""What policies share that are an actor under critics (Q functions) of observation and action (torch)."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from rlrun.data.tree import map_tree
from rlrun.nn.actor_q_nets import ActorQNets
from rlrun.nn.dense_net import DenseNet
from rlrun.policy.actor_behavior import ActorForward, DenseActor
from rlrun.policy.flat_parameters import FlatParameters
from rlrun.policy.state_dependent import NoiseMatrix, StateDependentActor

ACTOR = "actor."
CRITICS = "critics."


@dataclass(frozen=True)
class ActorQNetworks:
    """What losses of an actor and its critics are functions of: networks, to be run on what the loss chooses."""

    module: ActorQNets
    views: Mapping[str, Tensor]
    target_views: Mapping[str, Tensor]

    def critic_outputs(self, observations: Any, actions: Tensor | None = None) -> Tensor:
        """Returns what the critics put out for observations [S, L, ...] and actions [S, L, D], [C, S, L, K]."""
        return self._critics(self.views, observations, actions)

    def first_critic_outputs(self, observations: Any, actions: Tensor | None = None) -> Tensor:
        """Returns what the first critic alone puts out, [S, L, K]."""
        return run(self.module.critics[0], f"{CRITICS}0.", self.views, observations, actions)

    def target_critic_outputs(self, observations: Any, actions: Tensor | None = None) -> Tensor:
        """Returns what the target critics put out, [C, S, L, K]."""
        return self._critics(self.target_views, observations, actions)

    def actor_outputs(self, observations: Any) -> Tensor:
        """Returns what the actor puts out for observations [S, L, ...], [S, L, K]."""
        return run(self.module.actor, ACTOR, self.views, observations)

    def target_actor_outputs(self, observations: Any) -> Tensor:
        """Returns what the target actor puts out, [S, L, K]."""
        return run(self.module.actor, ACTOR, self.target_views, observations)

    def _critics(self, views: Mapping[str, Tensor], observations: Any, actions: Tensor | None) -> Tensor:
        return torch.stack(
            [
                run(critic, f"{CRITICS}{i}.", views, observations, actions)
                for i, critic in enumerate(self.module.critics)
            ]
        )


def run(
    module: nn.Module, prefix: str, views: Mapping[str, Tensor], observations: Any, further: Tensor | None = None
) -> Tensor:
    """Runs a part of a network on rows.

    Args:
        module: The part, a template.
        prefix: What the names of its parameters begin with.
        views: The parameters by name.
        observations: A tree of [S, L, ...].
        further: What comes with them, [S, L, D].

    Returns:
        Its outputs, [S, L, K].
    """
    own = {name.removeprefix(prefix): view for name, view in views.items() if name.startswith(prefix)}
    shapes: list[torch.Size] = []

    def flat(leaf: Tensor) -> Tensor:
        shapes.append(leaf.shape)
        return leaf.flatten(0, 1)

    arguments = (map_tree(flat, observations), None if further is None else further.flatten(0, 1))
    outputs: Tensor = functional_call(module, own, arguments)
    rows, length = shapes[0][:2]
    return outputs.float().view(rows, length, -1)


def acting_side(module: ActorQNets, table: FlatParameters, leaves: Any) -> ActorForward:
    """Returns the actor alone, for acting: a NumPy mirror if it is dense, a copy in torch otherwise.

    Args:
        module: Actor and critics.
        table: Where their parameters lie.
        leaves: The tree of `ObservationLeaf`.
    """
    actor = module.actor
    if actor.is_dense:
        layers = [*table.dense_layers(actor.trunk, f"{ACTOR}trunk"), *table.dense_layers(actor.head, f"{ACTOR}head")]
        return DenseActor(leaves, DenseNet(layers))
    from rlrun.policy.torch_behavior import TorchActor

    own = [slot for slot in table.slots if slot.name.startswith(ACTOR)]
    return TorchActor(copy.deepcopy(actor), own[0].offset, sum(slot.size for slot in own))


def state_dependent_acting_side(
    module: ActorQNets, table: FlatParameters, leaves: Any, every: int | None
) -> StateDependentActor:
    """Returns the actor alone, for acting with state-dependent exploration.

    Args:
        module: Actor and critics, of dense layers.
        table: Where their parameters lie.
        leaves: The tree of `ObservationLeaf`.
        every: Steps after which the noise matrix is drawn anew; None for once in a block of noise.
    """
    slot = table.slot(f"{ACTOR}std.log_stds")
    features, actions = slot.shape
    return StateDependentActor(
        leaves,
        DenseNet(table.dense_layers(module.actor.trunk, f"{ACTOR}trunk")),
        DenseNet(table.dense_layers(module.actor.head, f"{ACTOR}head")),
        NoiseMatrix(slot.offset, features, actions, every),
    )
