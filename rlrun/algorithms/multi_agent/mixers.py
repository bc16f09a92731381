"""Mixers that combine members' Q values to joint Q values, for value decomposition (torch)."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from typing_extensions import override


class SumMixer(nn.Module):
    """VDN's mixer: the sum of the members' values.

    Source:
        Sunehag et al., VDN, arXiv:1706.05296, eq. 1.
    """

    @override
    def forward(self, values: Tensor, state: Tensor | None) -> Tensor:
        """Joint Q values [S, L]: sum of members' values [S, L, K]; the state is unused."""
        return values.sum(-1)


class MonotonicMixer(nn.Module):
    """QMIX's mixer: a network that is monotonic in the members' values, with weights from hypernetworks.

    The weights are absolute values of linear functions of the world's state, and the biases are unconstrained: Q =
    |w2(s)| elu(|W1(s)| q + b1(s)) + b2(s), where b2 is a network with one hidden layer. A value of 0 contributes
    nothing.

    Args:
        state_shape: Shape of the world's state.
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
            state: The world's state, [S, L, ...].
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
        mixer: Mixer of members' Q values to joint Q values.
    """

    def __init__(self, agents: nn.Module, mixer: nn.Module) -> None:
        super().__init__()
        self.agents = agents
        self.mixer = mixer


def present_values(values: Tensor, present: Tensor) -> Tensor:
    """Masks members' values [S, L, K] to 0 where the mask `present` [S, L, K] is false."""
    return torch.where(present, values, torch.zeros_like(values))
