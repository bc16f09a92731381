"""Members' Q network, mixers and their targets, for the losses of VDN and QMIX (torch)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call
from typing_extensions import override

from rlrun.algorithms.recurrent_q.networks import RecurrentQNetworks
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.data.tree import map_tree
from rlrun.engine.nn.torch_network import TorchNetwork
from rlrun.engine.policy.action_masks import allowed_argmax


class SumMixer(nn.Module):
    """VDN's mixer: the sum of the members' values.

    Source:
        Sunehag et al., VDN, arXiv:1706.05296, eq. 1.
    """

    @override
    def forward(self, values: Tensor, state: Tensor | None) -> Tensor:
        """Joint Q values [rows, steps]: sum of members' values [rows, steps, members]; the state is unused."""
        return values.sum(-1)


class MonotonicMixer(nn.Module):
    """QMIX's mixer: a network that is monotonic in the members' values, with weights from hypernetworks.

    The weights are absolute values of linear functions of the env's global state s, and the biases are unconstrained: Q
    = |w2(s)| elu(|W1(s)| q + b1(s)) + b2(s), where b2 is a network with one hidden layer. A value of 0 contributes
    nothing.

    Args:
        state_shape: Shape of the global state.
        num_members: Number of team members, K.
        width: Width of the hidden layer.

    Source:
        Rashid et al., QMIX, arXiv:1803.11485, section 4 and figure 2.
    """

    def __init__(self, state_shape: tuple[int, ...], num_members: int, width: int) -> None:
        super().__init__()
        size = math.prod(state_shape)
        self.num_members = num_members
        self.first_weights = nn.Linear(size, num_members * width)
        self.first_biases = nn.Linear(size, width)
        self.second_weights = nn.Linear(size, width)
        self.second_bias = nn.Sequential(nn.Linear(size, width), nn.ReLU(), nn.Linear(width, 1))

    @override
    def forward(self, values: Tensor, state: Tensor | None) -> Tensor:
        """Joint Q values [S, L] of the monotonic mixing network.

        Args:
            values: The members' values, [S, L, K].
            state: The multi-agent env's global state, [S, L, ...].
        """
        assert state is not None
        rows, length = values.shape[:2]
        seen = state.reshape(rows * length, -1).float()
        weights = self.first_weights(seen).abs().view(rows * length, self.num_members, -1)
        members = values.reshape(rows * length, self.num_members, 1)
        hidden = nn.functional.elu((members * weights).sum(1) + self.first_biases(seen))
        mixed = (hidden * self.second_weights(seen).abs()).sum(-1) + self.second_bias(seen).squeeze(-1)
        team: Tensor = mixed.view(rows, length)
        return team


class TeamNet(nn.Module):
    """Module with the Q network shared by all members, and the mixer.

    Args:
        agents: Q network of the members.
        mixer: Mixer that combines the members' Q values into joint Q values.
    """

    def __init__(self, agents: nn.Module, mixer: nn.Module) -> None:
        super().__init__()
        self.agents = agents
        self.mixer = mixer


def present_values(values: Tensor, present: Tensor) -> Tensor:
    """Masks members' values [rows, steps, members] to 0 where the mask `present` [rows, steps, members] is false."""
    return torch.where(present, values, torch.zeros_like(values))


MIXER = "mixer."


@dataclass(frozen=True)
class TeamQNetworks:
    """Shared Q network of K members, and mixer, as losses use them: evaluated with given parameters.

    Observations are joint observations of all members, as the operator `JoinTeams` builds them.

    Attributes:
        network: Q network shared by the members, as a function that takes its parameters as input.
        mixer: Mixer that combines the members' Q values into the joint Q value, as a function that takes its parameters
            as input.
        views: Online parameters by name.
        target_views: Parameters of the target networks by name.
    """

    network: TorchNetwork
    mixer: SumMixer | MonotonicMixer
    views: Mapping[str, Tensor]
    target_views: Mapping[str, Tensor]

    def team_values(self, observations: Any, actions: Tensor) -> Tensor:
        """Joint Q values [rows, steps] of joint actions [rows, steps, members]."""
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
        """Greedy joint actions [rows, steps, members]: masked argmax of online Q values, without gradient."""
        with torch.no_grad():
            return self.best(self._values(self.views, observations), observations)

    def unrolled(self, batch: SampleBatch, burn_in: int) -> tuple[Tensor, Tensor]:
        """Members' Q values over S recurrent sequences of L steps, by the online and the target network.

        Args:
            batch: Joint `obs` [S, burn_in + L, ...], members' `episode_starts` [S, burn_in + L, K], and their initial
                recurrent `state` [S, K * state_size].
            burn_in: Number of burn-in steps at the start of each sequence.

        Returns:
            Q values [S, L, K, A] of K members' A actions after the burn-in: by the online network, with gradients, and
            by the target network, without.
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
        """Joint Q values [rows, steps]: mixes the Q values [rows, steps, members, A] of the actions taken."""
        return self._mixed(self.views, values, observations, actions)

    def target_mixed(self, values: Tensor, observations: Any, actions: Tensor) -> Tensor:
        """Joint Q values [rows, steps] of the actions taken, from the target mixer, without gradient; see `mixed`."""
        with torch.no_grad():
            return self._mixed(self.target_views, values, observations, actions)

    def best(self, values: Tensor, observations: Any) -> Tensor:
        """Masked argmax [rows, steps, members] of the members' Q values [rows, steps, members, num_actions]."""
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
    """Reshapes team sequences [rows, steps, members, ...] to member sequences [rows * members, steps, ...]."""
    return leaf.transpose(1, 2).flatten(0, 1)
