"""Networks of a team's Q policy and its mixer, as losses run them (torch)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.func import functional_call

from rlrun.algorithms.multi_agent.mixers import MonotonicMixer, SumMixer, present_values
from rlrun.algorithms.recurrent_q.networks import RecurrentQNetworks
from rlrun.data.sample_batch import SampleBatch
from rlrun.data.tree import map_tree
from rlrun.nn.torch_network import TorchNetwork
from rlrun.policy.action_masks import allowed_argmax

MIXER = "mixer."


@dataclass(frozen=True)
class TeamQNetworks:
    """The members' Q network and the mixer, with their targets, to be run on what a loss chooses.

    Observations are trees as `rlrun.algorithms.multi_agent.team.Team` makes them.

    Attributes:
        network: The members' network.
        mixer: From members' values to the team's.
        views: The networks' parameters by name.
        target_views: Those of the target networks.
    """

    network: TorchNetwork
    mixer: SumMixer | MonotonicMixer
    views: Mapping[str, Tensor]
    target_views: Mapping[str, Tensor]

    def team_values(self, observations: Any, actions: Tensor) -> Tensor:
        """Returns the team's values [S, L] of its members' actions [S, L, K]."""
        return self._mixed(self.views, self._values(self.views, observations), observations, actions)

    def target_team_values(self, observations: Any, actions: Tensor | None = None) -> Tensor:
        """Returns the target networks' values of actions [S, L, K], or of those that they value most, no gradient."""
        with torch.no_grad():
            values = self._values(self.target_views, observations)
            chosen = self.best(values, observations) if actions is None else actions
            return self._mixed(self.target_views, values, observations, chosen)

    def greedy_actions(self, observations: Any) -> Tensor:
        """Returns the allowed action of each member that it values most itself, [S, L, K]."""
        with torch.no_grad():
            return self.best(self._values(self.views, observations), observations)

    def unrolled(self, batch: SampleBatch, burn_in: int) -> tuple[Tensor, Tensor]:
        """Members' Q values after the burn-in, of the network and of its target network.

        Args:
            batch: `obs`, a tree of [S, burn_in + L, ...], `episode_starts` [S, burn_in + L, K], each member's own, and
                `state` [S, K * state_size].
            burn_in: Steps at the beginning of each row that only bring up the recurrent states.

        Returns:
            Values [S, L, K, A] of the network, through which gradients flow, and of the target network.
        """
        rows, span, members = batch["episode_starts"].shape
        of_members = SampleBatch(
            obs=map_tree(by_member, batch["obs"]["agents"]),
            episode_starts=by_member(batch["episode_starts"]),
            state=batch["state"].view(rows * members, -1),
        )
        networks = RecurrentQNetworks(self.network, self.views, self.target_views)
        found = networks.unrolled(of_members, burn_in)
        own, target = (values.view(rows, members, span - burn_in, -1).transpose(1, 2) for values in found)
        return own, target

    def mixed(self, values: Tensor, observations: Any, actions: Tensor) -> Tensor:
        """Returns the team's values [S, L] of members' actions [S, L, K] by their values [S, L, K, A]."""
        return self._mixed(self.views, values, observations, actions)

    def target_mixed(self, values: Tensor, observations: Any, actions: Tensor) -> Tensor:
        """Returns the same of the target networks, no gradient."""
        with torch.no_grad():
            return self._mixed(self.target_views, values, observations, actions)

    def best(self, values: Tensor, observations: Any) -> Tensor:
        """Returns the allowed actions [S, L, K] with the largest of members' values [S, L, K, A]."""
        return allowed_argmax(values, observations["agents"])

    def _values(self, views: Mapping[str, Tensor], observations: Any) -> Tensor:
        """Returns the values of each member's actions, [S, L, K, A]."""
        rows, length, members = observations["present"].shape
        agents = map_tree(lambda leaf: leaf.flatten(1, 2), observations["agents"])
        heads, _ = self.network(views, {"obs": agents})
        return heads["outputs"].view(rows, length, members, -1)

    def _mixed(self, views: Mapping[str, Tensor], values: Tensor, observations: Any, actions: Tensor) -> Tensor:
        """Returns the team's values [S, L] of members' actions [S, L, K] by their values [S, L, K, A]."""
        taken = values.gather(-1, actions.unsqueeze(-1)).squeeze(-1)
        own = {name.removeprefix(MIXER): view for name, view in views.items() if name.startswith(MIXER)}
        members = present_values(taken, observations["present"])
        mixed: Tensor = functional_call(self.mixer, own, (members, observations.get("state")))
        return mixed


def by_member(leaf: Tensor) -> Tensor:
    """Returns rows of teams [S, L, K, ...] as rows of their members, [S * K, L, ...]."""
    return leaf.transpose(1, 2).flatten(0, 1)
