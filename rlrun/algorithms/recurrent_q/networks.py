"""Online and target network of a recurrent Q policy, for losses over replayed sequences (torch)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.data.tree import map_tree
from rlrun.engine.nn.torch_network import TorchNetwork
from rlrun.engine.policy.action_masks import allowed_argmax


@dataclass(frozen=True)
class RecurrentQNetworks:
    """Recurrent Q network with online and target parameters, unrolled over sequences.

    Attributes:
        network: Recurrent Q network, as a function that takes its parameters as input.
        views: Parameters of the online network by name.
        target_views: Parameters of the target network by name.
    """

    network: TorchNetwork
    views: Mapping[str, Tensor]
    target_views: Mapping[str, Tensor]

    def unrolled(self, batch: SampleBatch, burn_in: int) -> tuple[Tensor, Tensor]:
        """Q values of online and target network over sequences, after a burn-in from stored recurrent states.

        The burn-in has no gradient. It reduces the staleness of recurrent states that were stored under older weights
        (Kapturowski et al., "Recurrent experience replay in distributed reinforcement learning", ICLR 2019, section 3).

        Args:
            batch: Columns `obs` [S, burn_in + L, ...], `episode_starts` [S, burn_in + L] and `state` [S, state_size].
            burn_in: Number of burn-in steps at the start of each sequence.

        Returns:
            Q values [S, L, A] of the online network, with gradients, and of the target network, without.
        """
        obs, starts, state = batch["obs"], batch["episode_starts"], batch["state"]
        with torch.no_grad():
            target_heads, _ = self.network(self.target_views, {"obs": obs}, state, starts)
            if burn_in:
                before = map_tree(lambda leaf: leaf[:, :burn_in], obs)
                _, state = self.network(self.views, {"obs": before}, state, starts[:, :burn_in])
        behind = map_tree(lambda leaf: leaf[:, burn_in:], obs)
        heads, _ = self.network(self.views, {"obs": behind}, state, starts[:, burn_in:])
        return heads["outputs"], target_heads["outputs"][:, burn_in:]

    def allowed_argmax(self, values: Tensor, observations: Any, burn_in: int) -> Tensor:
        """Masked argmax [S, L]: greedy actions among those that the observations allow.

        Args:
            values: Q values after the burn-in, [S, L, A].
            observations: Tree of observations, [S, burn_in + L, ...].
            burn_in: Number of burn-in steps at the start of each sequence.
        """
        return allowed_argmax(values, map_tree(lambda leaf: leaf[:, burn_in:], observations))
