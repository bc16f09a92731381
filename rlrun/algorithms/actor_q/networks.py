"""Networks of an actor and its Q functions (critics) as losses call them (torch)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from rlrun.algorithms.actor_q.actor_q_nets import ActorQNets
from rlrun.data.action_masks import ACTION_MASK, mask_of
from rlrun.data.sample_batch import SampleBatch
from rlrun.data.tree import map_tree
from rlrun.functional.sequence_rows import following_steps
from rlrun.nn.network_module import NetworkModule
from rlrun.nn.torch_network import TorchNetwork
from rlrun.policy.action_masks import masked_tensor

ACTOR = "actor."
CRITICS = "critics."


@dataclass(frozen=True)
class Sequences:
    """Observations of whole sequences, and the steps at which recurrent networks are evaluated.

    Attributes:
        obs: A tree of [S, burn_in + R, ...].
        episode_starts: Whether an episode begins with a row, [S, burn_in + R].
        state: The actor's recurrent state before the first rows, [S, state_size].
        burn_in: Rows that only bring up the recurrent states, without gradient.
        steps: The steps, as rows after the burn-in, [S, L].
    """

    obs: Any
    episode_starts: Tensor
    state: Tensor
    burn_in: int
    steps: Tensor


@dataclass(frozen=True)
class ActorQNetworks:
    """Actor, critics and target networks, as losses call them.

    Attributes:
        critics: The critics, templates.
        actor: The actor, a template; None if there is none.
        views: Their parameters by name.
        target_views: Those of the target networks.
        burn_in: Rows of a sequence that only bring up recurrent states; None without a core.
    """

    critics: tuple[TorchNetwork, ...]
    actor: TorchNetwork | None
    views: Mapping[str, Tensor]
    target_views: Mapping[str, Tensor]
    burn_in: int | None = None

    def present(self, batch: SampleBatch) -> Any:
        """Returns the observations of a batch's steps [S, L], as networks here take them."""
        if self.burn_in is None:
            return batch["obs"]
        return self._sequences(batch, torch.zeros_like(batch["steps"]))

    def following(self, batch: SampleBatch) -> Any:
        """Returns the observations that follow the n-step transitions of a batch's steps [S, L]."""
        return batch["next_obs"] if self.burn_in is None else self._sequences(batch, batch["steps"])

    def _sequences(self, batch: SampleBatch, ahead: Tensor) -> Sequences:
        assert self.burn_in is not None
        steps = following_steps(ahead)
        return Sequences(batch["obs"], batch["episode_starts"], batch["state"], self.burn_in, steps)

    def critic_outputs(self, observations: Any, actions: Tensor | None = None) -> Tensor:
        """Outputs of the critics for observations [S, L, ...] and actions [S, L, D], [C, S, L, K]."""
        return torch.stack([run(critic, self.views, observations, actions) for critic in self.critics])

    def target_critic_outputs(self, observations: Any, actions: Tensor | None = None) -> Tensor:
        """Outputs of the target critics, [C, S, L, K]."""
        return torch.stack([run(critic, self.target_views, observations, actions) for critic in self.critics])

    def values(self, observations: Any, actions: Tensor) -> Tensor:
        """Returns the critics' values of actions [S, L, D], [C, S, L]."""
        return self.critic_outputs(observations, actions).squeeze(-1)

    def target_values(self, observations: Any, actions: Tensor) -> Tensor:
        """Returns the target critics' values, [C, S, L]."""
        return self.target_critic_outputs(observations, actions).squeeze(-1)

    def first_values(self, observations: Any, actions: Tensor) -> Tensor:
        """Returns the first critic's values, [S, L]."""
        return run(self.critics[0], self.views, observations, actions).squeeze(-1)

    def actor_outputs(self, observations: Any) -> Tensor:
        """Outputs of the actor for observations [S, L, ...], masked, [S, L, K]."""
        return self._actor_outputs(self.views, observations)

    def target_actor_outputs(self, observations: Any) -> Tensor:
        """Outputs of the target actor, masked, [S, L, K]."""
        return self._actor_outputs(self.target_views, observations)

    def _actor_outputs(self, views: Mapping[str, Tensor], observations: Any) -> Tensor:
        assert self.actor is not None
        outputs = run(self.actor, views, observations, state=_state(observations))
        return masked_tensor(outputs, action_masks(observations))


class DeterministicNetworks(ActorQNetworks):
    """An actor whose outputs become actions between -1 and 1, and critics of observation and action."""

    def actions(self, observations: Any) -> Tensor:
        """Returns the actor's actions in observations [S, L, ...], [S, L, D]."""
        return self.actor_outputs(observations).tanh()

    def target_actions(self, observations: Any) -> Tensor:
        """Returns the target actor's actions, [S, L, D]."""
        return self.target_actor_outputs(observations).tanh()


def run(
    network: TorchNetwork,
    views: Mapping[str, Tensor],
    observations: Any,
    actions: Tensor | None = None,
    *,
    state: Tensor | None = None,
) -> Tensor:
    """Returns outputs [S, L, K] for observations [S, L, ...] and, where a network takes them, actions [S, L, D].

    Args:
        network: What is run.
        views: Parameters by name.
        observations: A tree of tensors, or `Sequences`, of which L steps are asked about.
        actions: Actions in those steps; None for a network that takes none.
        state: Recurrent state before the first rows of sequences; None for that at an episode's start.
    """
    vectors = {} if actions is None else {"actions": actions}
    if not isinstance(observations, Sequences):
        heads, _ = network(views, {"obs": observations, **vectors})
        return heads["outputs"]
    starts, burn_in = observations.episode_starts, observations.burn_in
    if state is None:
        assert isinstance(network.module, NetworkModule)
        state = torch.zeros(len(starts), network.module.spec.state_size, device=starts.device)
    if burn_in:
        with torch.no_grad():
            before = {"obs": map_tree(lambda leaf: leaf[:, :burn_in], observations.obs)}
            unasked = {} if actions is None else {"actions": actions[:, :1]}
            first = observations.steps[:, :1] * 0
            _, state = network(views, {**before, **unasked}, state, starts[:, :burn_in], first)
    behind = {"obs": map_tree(lambda leaf: leaf[:, burn_in:], observations.obs), **vectors}
    heads, _ = network(views, behind, state, starts[:, burn_in:], observations.steps)
    return heads["outputs"]


def action_masks(observations: Any) -> dict[str, Tensor]:
    """Returns the action masks at the evaluated steps, as an observation holds them, if there are any."""
    if not isinstance(observations, Sequences):
        mask = mask_of(observations)
        return {} if mask is None else {ACTION_MASK: mask}
    mask = mask_of(observations.obs)
    if mask is None:
        return {}
    masks = mask[:, observations.burn_in :]
    return {ACTION_MASK: masks.gather(1, observations.steps.unsqueeze(-1).expand(-1, -1, masks.shape[-1]))}


def _state(observations: Any) -> Tensor | None:
    return observations.state if isinstance(observations, Sequences) else None


def networks_of(module: ActorQNets) -> tuple[tuple[TorchNetwork, ...], TorchNetwork | None]:
    """Returns the critics and the actor as networks over one flat parameter vector."""
    critics = tuple(TorchNetwork(critic, prefix=f"{CRITICS}{i}.") for i, critic in enumerate(module.critics))
    return critics, None if module.actor is None else TorchNetwork(module.actor, prefix=ACTOR)
