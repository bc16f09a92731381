"""Recurrent Q policies (torch)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import gymnasium
import torch
from torch import Tensor
from typing_extensions import override

from rlrun.algorithms.recurrent_q.recurrent_model import RecurrentModelConfig
from rlrun.data.sample_batch import SampleBatch
from rlrun.data.tree import map_tree
from rlrun.nn.network_module import NetworkModule, initialize, seeded
from rlrun.nn.network_spec import Head, NetworkSpec, Tower, core_of, network_spec
from rlrun.nn.observation_leaves import ObservationTree
from rlrun.nn.torch_network import TorchNetwork
from rlrun.policy.acting_network import acting_network
from rlrun.policy.action_masks import allowed_argmax, policy_leaves
from rlrun.policy.action_spaces.make import discrete_actions
from rlrun.policy.behavior import BehaviorPolicy
from rlrun.policy.exploration.epsilon_greedy import EpsilonGreedy
from rlrun.policy.flat_parameters import FlatParameters
from rlrun.policy.policy import Policy


@dataclass(frozen=True)
class RecurrentQNetworks:
    """Recurrent Q network and target network, as losses unroll them.

    Attributes:
        network: The network.
        views: Its parameters by name.
        target_views: The target network's.
    """

    network: TorchNetwork
    views: Mapping[str, Tensor]
    target_views: Mapping[str, Tensor]

    def unrolled(self, batch: SampleBatch, burn_in: int) -> tuple[Tensor, Tensor]:
        """Returns Q values after the burn-in, of the network and of the target network.

        Both networks run over the burn-in from the stored recurrent state, without gradient, which reduces the
        staleness of states that older weights computed (Kapturowski et al., "Recurrent experience replay
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


class RecurrentQPolicy(Policy):
    """Policy of Q values of discrete actions by a recurrent network.

    Args:
        observation_space: What the env shows.
        action_space: What it takes.
        model: The network.
        normalize_observations: Whether observations are filtered.
        seed: Seed of the first parameters.

    Raises:
        UsageError: If actions are not a finite number of choices.
    """

    def __init__(
        self,
        observation_space: gymnasium.Space[Any],
        action_space: gymnasium.Space[Any],
        model: RecurrentModelConfig,
        *,
        normalize_observations: bool,
        seed: int,
    ) -> None:
        self.action_space = discrete_actions(action_space)
        self.leaves = policy_leaves(
            observation_space, action_space, model, normalize_observations=normalize_observations
        )
        self.normalize_observations = normalize_observations
        with seeded(seed):
            self.module = NetworkModule(recurrent_q_spec(self.leaves, model, self.action_space.num_outputs))
        initialize([self.module], self.module, orthogonal=model.orthogonal_init, seed=seed)
        self.parameters = FlatParameters(self.module)
        self.network = TorchNetwork(self.module)

    @override
    def outputs(
        self, views: Mapping[str, Tensor], batch: SampleBatch, target_views: Mapping[str, Tensor] | None = None
    ) -> RecurrentQNetworks:
        targets = views if target_views is None else target_views
        return RecurrentQNetworks(self.network, views, targets)

    @override
    def behavior(self) -> BehaviorPolicy:
        return BehaviorPolicy(
            acting_network(self.network, self.parameters),
            self.action_space,
            EpsilonGreedy(self.action_space.num_outputs, num_draws=2),
            self.leaves,
            normalize_observations=self.normalize_observations,
        )


def recurrent_q_spec(leaves: ObservationTree, model: RecurrentModelConfig, num_actions: int) -> NetworkSpec:
    """Returns the network of a recurrent Q policy.

    Args:
        leaves: The tree of `ObservationLeaf`.
        model: Layers, and whether the head's first output is the observation's own value (dueling).
        num_actions: A.
    """
    head = Head("outputs", "head", num_actions, num_actions=num_actions if model.dueling else 0)
    return network_spec(leaves, model, Tower((head,)), core=core_of(model))
