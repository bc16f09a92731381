"""What losses of an actor and its Q functions (its critics) of observation and action are functions of (torch)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from rlrun.nn.actor_q_nets import ActorQNets
from rlrun.nn.torch_network import TorchNetwork

ACTOR = "actor."
CRITICS = "critics."


@dataclass(frozen=True)
class ActorQNetworks:
    """Networks, to be run on what a loss chooses.

    Attributes:
        critics: The critics, templates.
        actor: The actor, a template; None if there is none.
        views: Their parameters by name.
        target_views: Those of the target networks.
    """

    critics: tuple[TorchNetwork, ...]
    actor: TorchNetwork | None
    views: Mapping[str, Tensor]
    target_views: Mapping[str, Tensor]

    def critic_outputs(self, observations: Any, actions: Tensor | None = None) -> Tensor:
        """Returns what the critics put out for observations [S, L, ...] and actions [S, L, D], [C, S, L, K]."""
        return torch.stack([run(critic, self.views, observations, actions) for critic in self.critics])

    def first_critic_outputs(self, observations: Any, actions: Tensor | None = None) -> Tensor:
        """Returns what the first critic alone puts out, [S, L, K]."""
        return run(self.critics[0], self.views, observations, actions)

    def target_critic_outputs(self, observations: Any, actions: Tensor | None = None) -> Tensor:
        """Returns what the target critics put out, [C, S, L, K]."""
        return torch.stack([run(critic, self.target_views, observations, actions) for critic in self.critics])

    def first_target_critic_outputs(self, observations: Any, actions: Tensor | None = None) -> Tensor:
        """Returns what the first target critic alone puts out, [S, L, K]."""
        return run(self.critics[0], self.target_views, observations, actions)

    def actor_outputs(self, observations: Any) -> Tensor:
        """Returns what the actor puts out for observations [S, L, ...], [S, L, K]."""
        assert self.actor is not None
        return run(self.actor, self.views, observations)

    def target_actor_outputs(self, observations: Any) -> Tensor:
        """Returns what the target actor puts out, [S, L, K]."""
        assert self.actor is not None
        return run(self.actor, self.target_views, observations)


def run(network: TorchNetwork, views: Mapping[str, Tensor], observations: Any, actions: Tensor | None = None) -> Tensor:
    """Returns outputs [S, L, K] for observations [S, L, ...] and, where a network takes them, actions [S, L, D]."""
    heads, _ = network(views, {"obs": observations} if actions is None else {"obs": observations, "actions": actions})
    return heads["outputs"]


def networks_of(module: ActorQNets) -> tuple[tuple[TorchNetwork, ...], TorchNetwork | None]:
    """Returns the critics and the actor as networks of one flat vector."""
    critics = tuple(TorchNetwork(critic, prefix=f"{CRITICS}{i}.") for i, critic in enumerate(module.critics))
    return critics, None if module.actor is None else TorchNetwork(module.actor, prefix=ACTOR)
