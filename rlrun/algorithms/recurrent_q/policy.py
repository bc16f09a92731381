"""Policies that act with a recurrent Q network over Discrete actions (torch)."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor
from typing_extensions import override

from rlrun.algorithms.recurrent_q.networks import RecurrentQNetworks
from rlrun.algorithms.recurrent_q.r2d2 import R2D2Config, RecurrentModelConfig
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.envs.spaces import Spaces
from rlrun.engine.nn.network_module import NetworkModule, initialize, seeded
from rlrun.engine.nn.network_spec import Head, NetworkSpec, Tower, core_of, network_spec
from rlrun.engine.nn.observation_leaves import ObservationTree
from rlrun.engine.nn.torch_network import TorchNetwork
from rlrun.engine.policy.acting_network import acting_network
from rlrun.engine.policy.action_masks import policy_leaves
from rlrun.engine.policy.action_spaces.discrete import discrete_actions
from rlrun.engine.policy.behavior import BehaviorPolicy
from rlrun.engine.policy.exploration.epsilon_greedy import EpsilonGreedy
from rlrun.engine.policy.exploration.exploration import Exploration, custom_exploration
from rlrun.engine.policy.flat_parameters import FlatParameters
from rlrun.engine.policy.policy import Policy


class RecurrentQPolicy(Policy):
    """Policy with a recurrent Q network over Discrete actions.

    Args:
        spaces: Observation and action space.
        config: Settings of R2D2.
        seed: Seed for the initial parameters.

    Raises:
        UsageError: If actions are not a finite set.
    """

    def __init__(self, spaces: Spaces, config: R2D2Config, seed: int) -> None:
        self.action_space = discrete_actions(spaces.action)
        self.leaves = policy_leaves(*spaces, config.model, normalize_observations=config.normalize_observations)
        self.exploration = config.exploration
        self.normalize_observations = config.normalize_observations
        with seeded(seed):
            self.module = NetworkModule(recurrent_q_spec(self.leaves, config.model, self.action_space.num_outputs))
        initialize([self.module], self.module, orthogonal=config.model.orthogonal_init, seed=seed)
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
            self._exploration(),
            self.leaves,
            normalize_observations=self.normalize_observations,
        )

    def _exploration(self) -> Exploration:
        if self.exploration == "epsilon_greedy":
            return EpsilonGreedy(self.action_space.num_outputs, num_draws=2)
        return custom_exploration(self.exploration, self.action_space)


def recurrent_q_spec(leaves: ObservationTree, model: RecurrentModelConfig, num_actions: int) -> NetworkSpec:
    """Spec of a recurrent Q network: encoder, recurrent core and an optionally dueling head.

    Args:
        leaves: Entries of the observation with their encodings: a tree of `ObservationLeaf`.
        model: Settings of layers, core and dueling head.
        num_actions: Number of Discrete actions, A.
    """
    head = Head("outputs", "head", num_actions, num_actions=num_actions if model.dueling else 0)
    return network_spec(leaves, model, Tower((head,)), core=core_of(model))
