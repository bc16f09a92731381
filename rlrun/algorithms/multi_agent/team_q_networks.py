"""Members' Q network, mixer and their targets, for the losses of VDN and QMIX (torch)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.func import functional_call

from rlrun.algorithms.multi_agent.mixers import MonotonicMixer, SumMixer, present_values
from rlrun.algorithms.recurrent_q.networks import RecurrentQNetworks
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.data.tree import map_tree
from rlrun.engine.nn.torch_network import TorchNetwork
from rlrun.engine.policy.action_masks import allowed_argmax

MIXER = "mixer."


@dataclass(frozen=True)
class TeamQNetworks:
    """Shared Q network of K members and mixer, evaluated with the parameters of an update.

    Observations are joint observations of `rlrun.algorithms.multi_agent.team.Team`.

    Attributes:
        network: Q network shared by the members, as a function without parameters.
        mixer: Mixer of members' Q values to the joint Q value, as a function without parameters.
        views: Online parameters by name.
        target_views: Parameters of the target networks by name.
    """

    network: TorchNetwork
    mixer: SumMixer | MonotonicMixer
    views: Mapping[str, Tensor]
    target_views: Mapping[str, Tensor]

    def team_values(self, observations: Any, actions: Tensor) -> Tensor:
        """Joint Q values [S, L] of joint actions [S, L, K]."""
        return self._mixed(self.views, self._values(self.views, observations), observations, actions)

    def target_team_values(self, observations: Any, actions: Tensor | None = None) -> Tensor:
        """Joint target Q values [S, L], without gradient.

        Args:
            observations: Joint observations.
            actions: Joint actions, [S, L, K]; None for the greedy actions of the target network.
        """
        with torch.no_grad():
            values = self._values(self.target_views, observations)
            chosen = self.best(values, observations) if actions is None else actions
            return self._mixed(self.target_views, values, observations, chosen)

    def greedy_actions(self, observations: Any) -> Tensor:
        """Greedy joint actions [S, L, K]: masked argmax of each member's online Q values, without gradient."""
        with torch.no_grad():
            return self.best(self._values(self.views, observations), observations)

    def unrolled(self, batch: SampleBatch, burn_in: int) -> tuple[Tensor, Tensor]:
        """Members' Q values over recurrent sequences after a burn-in, by the online and the target network.

        Args:
            batch: Joint `obs` [S, burn_in + L, ...], members' `episode_starts` [S, burn_in + L, K], and their initial
                recurrent `state` [S, K * state_size].
            burn_in: Number of burn-in steps at the start of each sequence.

        Returns:
            Q values [S, L, K, A] of the online network, with gradients, and of the target network, without.
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
        """Joint Q values [S, L]: mixes the members' Q values [S, L, K, A] at actions [S, L, K]."""
        return self._mixed(self.views, values, observations, actions)

    def target_mixed(self, values: Tensor, observations: Any, actions: Tensor) -> Tensor:
        """Joint target Q values [S, L] from members' values [S, L, K, A] and actions [S, L, K]; no gradient."""
        with torch.no_grad():
            return self._mixed(self.target_views, values, observations, actions)

    def best(self, values: Tensor, observations: Any) -> Tensor:
        """Masked argmax [S, L, K] of the members' Q values [S, L, K, A]."""
        return allowed_argmax(values, observations["agents"])

    def _values(self, views: Mapping[str, Tensor], observations: Any) -> Tensor:
        """Q values [S, L, K, A] of each member for a feed-forward network."""
        rows, length, members = observations["present"].shape
        agents = map_tree(lambda leaf: leaf.flatten(1, 2), observations["agents"])
        heads, _ = self.network(views, {"obs": agents})
        return heads["outputs"].view(rows, length, members, -1)

    def _mixed(self, views: Mapping[str, Tensor], values: Tensor, observations: Any, actions: Tensor) -> Tensor:
        """Gathers members' Q values [S, L, K, A] at actions [S, L, K], and mixes them to joint Q values [S, L]."""
        taken = values.gather(-1, actions.unsqueeze(-1)).squeeze(-1)
        own = {name.removeprefix(MIXER): view for name, view in views.items() if name.startswith(MIXER)}
        members = present_values(taken, observations["present"])
        mixed: Tensor = functional_call(self.mixer, own, (members, observations.get("state")))
        return mixed


def by_member(leaf: Tensor) -> Tensor:
    """Reshapes team sequences [S, L, K, ...] to member sequences [S * K, L, ...]."""
    return leaf.transpose(1, 2).flatten(0, 1)
