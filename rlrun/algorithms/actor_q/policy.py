"""Base class of policies whose critics evaluate continuous actions: DDPG, TD3, SAC, QT-Opt, MADDPG (torch)."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Protocol

from torch import Tensor
from typing_extensions import override

from rlrun.algorithms.actor_q.actor_q_nets import ActorQNets
from rlrun.algorithms.actor_q.bounded_gaussian import BoundedGaussianActions
from rlrun.algorithms.actor_q.networks import ACTOR, CRITICS, ActorQNetworks, torch_networks
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.nn.acting import ActingNetwork
from rlrun.engine.nn.model_config import CriticsModelConfig
from rlrun.engine.nn.network_module import NetworkModule
from rlrun.engine.nn.network_spec import KEPT_UNITS, NetworkSpec
from rlrun.engine.nn.observation_leaves import ObservationTree
from rlrun.engine.nn.torch_network import TorchNetwork
from rlrun.engine.policy.acting_network import acting_network
from rlrun.engine.policy.action_spaces.box import DeterministicBoxActions
from rlrun.engine.policy.action_spaces.discrete import DiscreteActions
from rlrun.engine.policy.action_spaces.squashed_box import SquashedBoxActions
from rlrun.engine.policy.behavior import BehaviorPolicy
from rlrun.engine.policy.exploration.exploration import Exploration, custom_exploration
from rlrun.engine.policy.exploration.uniform_until import UniformUntil
from rlrun.engine.policy.flat_parameters import FlatParameters
from rlrun.engine.policy.fragment_collector import Recording
from rlrun.engine.policy.policy import Policy
from rlrun.engine.policy.policy_config import PolicyConfig

CriticFactory = Callable[[ObservationTree, CriticsModelConfig, int, int], NetworkSpec]
"""Makes the spec of each critic from (leaves, model, num_values, action_size), as `critic_spec` does.

`num_values` is the number of Discrete actions, with `action_size` 0; for a Box it is 1, with `action_size` D.
"""

NetworkFactories = Mapping[str, Callable[[ObservationTree, CriticsModelConfig], NetworkSpec]]
"""Makes the specs of further networks from (leaves, model), by name."""


class ActorQConfig(PolicyConfig, Protocol):
    """Interface of algorithm configs from which policies with critics take their settings."""

    @property
    def exploration(self) -> str:
        """Name of a built-in exploration, or `package.module:Class` of a custom one."""

    @property
    def learning_starts(self) -> int:
        """Number of initial env steps, with uniformly random actions, before training on minibatches begins."""


class ActorQPolicy(Policy):
    """Policy with critics (Q functions), and a network that acts: an actor, or a search for actions with high Q values.

    Args:
        config: Settings.
        leaves: Entries of the observation with their encodings: a tree of `ObservationLeaf`.
        action_space: Action space of the network that acts.
        module: Torch module of the critics and other networks.
        acting: Name prefix of the parameters of the network that acts.
        networks: Function that takes the fields of `ActorQNetworks` and creates the networks passed to losses.
        burn_in: Length of the burn-in of recurrent networks.

    Attributes:
        critics: The critics, as functions that take their parameters as input.
        others: The other networks by name, such as `actor`, as functions that take their parameters as input.
    """

    world_columns: ClassVar[tuple[str, ...]] = ()
    module: ActorQNets

    def __init__(
        self,
        config: ActorQConfig,
        leaves: ObservationTree,
        action_space: BoundedGaussianActions | DeterministicBoxActions | DiscreteActions | SquashedBoxActions,
        module: ActorQNets,
        *,
        acting: str = ACTOR,
        networks: Callable[..., ActorQNetworks] = ActorQNetworks,
        burn_in: int = 0,
    ) -> None:
        self.config, self.leaves, self.action_space, self.module = config, leaves, action_space, module
        self.parameters = FlatParameters(module)
        self.critics = torch_networks(module, CRITICS)
        self.others = {
            name: TorchNetwork(network, prefix=f"{name}.")
            for name, network in module.named_children()
            if isinstance(network, NetworkModule)
        }
        self.burn_in = None if config.model.core is None else burn_in
        self._acting, self._networks = acting, networks

    @property
    @override
    def acting_range(self) -> tuple[int, int]:
        """Slice, as (start, size), of the flat policy parameters that acting needs."""
        return self.parameters.range_under(self._acting)

    @override
    def outputs(
        self, views: Mapping[str, Tensor], batch: SampleBatch, target_views: Mapping[str, Tensor] | None = None
    ) -> Any:
        targets = views if target_views is None else target_views
        return self._networks(self.critics, self.others, views, targets, self.burn_in, batch.get(KEPT_UNITS))

    @override
    def behavior(self) -> BehaviorPolicy:
        path = self.config.exploration
        explored = custom_exploration(path, self.action_space) if ":" in path else self.built_in_exploration()
        return BehaviorPolicy(
            self.acting_network(),
            self.action_space,
            UniformUntil(explored, self.action_space, self.config.learning_starts),
            self.leaves,
            normalize_observations=self.config.normalize_observations,
            recording=self.recording(),
            world_columns=self.world_columns,
        )

    @abstractmethod
    def built_in_exploration(self) -> Exploration:
        """Creates the exploration used after the initial uniform actions, unless settings name a custom one."""

    def acting_network(self) -> ActingNetwork:
        """Creates the NumPy network that selects actions, by default the actor; its weights are loaded later."""
        return self.acting_side(self.others["actor"])

    def acting_side(self, network: TorchNetwork) -> ActingNetwork:
        """Creates the NumPy counterpart of a torch network, for acting; its weights are loaded later."""
        return acting_network(network, self.parameters, start=self.acting_range[0])

    def recording(self) -> Recording | None:
        """Creates the recorder, which adds columns such as Q values to a worker's rollouts; None by default."""
        return None
