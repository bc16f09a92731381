"""The network of a recurrent Q policy and its target, as losses run them (torch)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from rlrun.data.sample_batch import SampleBatch
from rlrun.data.tree import map_tree
from rlrun.nn.torch_network import TorchNetwork
from rlrun.policy.action_masks import allowed_argmax


@dataclass(frozen=True)
class RecurrentQNetworks:
    """The online and the target network of a recurrent Q policy, to be run over rows.

    Attributes:
        network: The network.
        views: Its parameters by name.
        target_views: The target network's.
    """

    network: TorchNetwork
    views: Mapping[str, Tensor]
    target_views: Mapping[str, Tensor]

    def unrolled(self, batch: SampleBatch, burn_in: int) -> tuple[Tensor, Tensor]:
        """Q values after the burn-in, of the network and of its target network.

        Both networks run over the burn-in from the stored recurrent state, without gradient. That brings a state which
        older weights left nearer to that of the present ones (Kapturowski et al., "Recurrent experience replay
        in distributed reinforcement learning", ICLR 2019, section 3).

        Args:
            batch: Columns `obs` [S, burn_in + L, ...], `episode_starts` [S, burn_in + L] and `state` [S, state_size].
            burn_in: Steps at the beginning of each row that only bring up the recurrent state.

        Returns:
            Values [S, L, A] of the network, through which gradients flow, and of the target network.
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
        """Returns the actions [S, L] with the largest of values [S, L, A] among those that are allowed.

        Args:
            values: Q values after the burn-in.
            observations: A tree of [S, burn_in + L, ...].
            burn_in: Steps at the beginning of each row that do not count.
        """
        return allowed_argmax(values, map_tree(lambda leaf: leaf[:, burn_in:], observations))
