"""Parameters of an actor, its critics (Q functions) and temperature, without sharing (torch)."""

from __future__ import annotations

import torch
from torch import nn

from rlrun.errors import UsageError
from rlrun.nn.model_config import ModelConfig
from rlrun.nn.network_module import NetworkModule, initialize, seeded
from rlrun.nn.network_spec import Head, LogStds, NetworkSpec, Tower, core_of, network_spec
from rlrun.nn.observation_leaves import ObservationTree


def actor_spec(
    leaves: ObservationTree, model: ModelConfig, num_outputs: int, log_stds: LogStds | None = None
) -> NetworkSpec:
    """Spec of an actor network.

    Args:
        leaves: Tree of `ObservationLeaf`.
        model: Settings of the layers.
        num_outputs: Size of the output, K.
        log_stds: Outputs that are log standard deviations of state-dependent exploration; None for no such outputs.
    """
    head = Head("outputs", "head", num_outputs, gain=0.01, log_stds=log_stds)
    return network_spec(leaves, model, Tower((head,)), core=core_of(model))


def critic_spec(leaves: ObservationTree, model: ModelConfig, num_outputs: int, action_size: int) -> NetworkSpec:
    """Spec of a Q network, of state and action or with one output per action.

    In a recurrent network, actions are concatenated after the core, before dense layers of the same widths. The
    recurrent state is thus a function of observations alone, and any action can be evaluated at every step (Ni et al.,
    arXiv:2110.05038).

    Args:
        leaves: Tree of `ObservationLeaf`.
        model: Settings of the layers.
        num_outputs: Size of the output.
        action_size: Size D of the input action; 0 if the outputs are the values of all actions.
    """
    vectors = (("actions", action_size),) if action_size else ()
    hiddens = None if model.core is None else model.dense_widths
    tower = Tower((Head("outputs", "head", num_outputs, hiddens=hiddens),))
    return network_spec(leaves, model, tower, vectors=vectors, core=core_of(model))


class ActorQNets(nn.Module):
    """Actor, critics and temperature, each contiguous in the flat parameter vector.

    Args:
        critic: Spec of each critic.
        num_critics: Number of critics, C.
        actor: Spec of the actor; None without an actor.
        model: Settings of all networks.
        seed: Seed of the initial weights.
        initial_alpha: Initial temperature; None for no temperature.

    Attributes:
        critics: Critic networks.
        actor: Actor network; None without an actor.
        log_alpha: Logarithm of the temperature, [1], of maximum-entropy actors.

    Raises:
        UsageError: If the model is a custom network.
    """

    def __init__(
        self,
        critic: NetworkSpec,
        num_critics: int,
        actor: NetworkSpec | None,
        model: ModelConfig,
        *,
        seed: int,
        initial_alpha: float | None = None,
    ) -> None:
        if model.module is not None:
            raise UsageError("model.module: actors under critics of actions are built by rlrun; leave it null")
        super().__init__()
        with seeded(seed):
            critics = [NetworkModule(critic) for _ in range(num_critics)]
            self.critics = nn.ModuleList(critics)
            self.actor = None if actor is None else NetworkModule(actor)
        actors = [] if self.actor is None else [self.actor]
        initialize([*actors, *critics], self, orthogonal=model.orthogonal_init, seed=seed)
        self.log_alpha = None if initial_alpha is None else nn.Parameter(torch.tensor([initial_alpha]).log())


class TeamActorQNets(nn.Module):
    """Critics of a team's members, followed by their actors; actors and critics share no parameters.

    Args:
        critic: Spec of each critic.
        num_members: Number of team members, K, each with a critic.
        actor: Spec of each actor.
        num_actors: Number of actors: K, or 1 with parameter sharing.
        model: Settings of all networks.
        seed: Seed of the initial weights.

    Attributes:
        critics: Critic networks of the members.
        actors: Actor networks of the members, or one shared actor.
    """

    def __init__(
        self,
        critic: NetworkSpec,
        num_members: int,
        actor: NetworkSpec,
        num_actors: int,
        model: ModelConfig,
        *,
        seed: int,
    ) -> None:
        super().__init__()
        with seeded(seed):
            critics = [NetworkModule(critic) for _ in range(num_members)]
            actors = [NetworkModule(actor) for _ in range(num_actors)]
        self.critics = nn.ModuleList(critics)
        self.actors = nn.ModuleList(actors)
        initialize([*actors, *critics], self, orthogonal=model.orthogonal_init, seed=seed)
