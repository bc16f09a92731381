"""Q policies with value decomposition: a Q network shared by a team's members, and a mixer (torch).

Recurrent members have separate recurrent states: the network is unrolled over each member's sequence. The mixer
combines the values of all members at each step.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from torch import Tensor
from typing_extensions import override

from rlrun.algorithms.dqn.policy import q_spec
from rlrun.algorithms.multi_agent.team_q_networks import MonotonicMixer, SumMixer, TeamNet, TeamQNetworks
from rlrun.engine.data.sample_batch import ACTS, WORLD_STATE, SampleBatch
from rlrun.engine.envs.spaces import Spaces
from rlrun.engine.nn.network_module import NetworkModule, initialize, seeded
from rlrun.engine.nn.network_spec import core_of
from rlrun.engine.nn.torch_network import TorchNetwork
from rlrun.engine.policy.acting_network import acting_network
from rlrun.engine.policy.action_masks import policy_leaves
from rlrun.engine.policy.action_spaces.discrete import discrete_actions
from rlrun.engine.policy.behavior import BehaviorPolicy
from rlrun.engine.policy.exploration.epsilon_greedy import EpsilonGreedy
from rlrun.engine.policy.exploration.exploration import Exploration, custom_exploration
from rlrun.engine.policy.flat_parameters import FlatParameters
from rlrun.engine.policy.policy import Policy
from rlrun.engine.worlds.world_view import WorldView

if TYPE_CHECKING:
    from rlrun.algorithms.multi_agent.vdn import VDNConfig

AGENTS = "agents."


class TeamQPolicy(Policy):
    """Policy with a Q network shared by the members of a team, and a mixer of their Q values (VDN, QMIX).

    Args:
        spaces: Observation and action space of each member.
        config: Settings of VDN or QMIX.
        seed: Seed for the initial parameters.
        world: Description of the multi-agent env: number of agents, and space of its global state.

    Raises:
        UsageError: If actions are not a finite set.
    """

    module: TeamNet

    def __init__(self, spaces: Spaces, config: VDNConfig, seed: int, world: WorldView) -> None:
        model = config.model
        self.action_space = discrete_actions(spaces.action)
        self.leaves = policy_leaves(*spaces, model, normalize_observations=False)
        self.exploration = config.exploration
        self.world_columns: tuple[str, ...] = (ACTS,)
        with seeded(seed):
            spec = q_spec(self.leaves, model, self.action_space.num_outputs, 1, dueling=False)
            agents = NetworkModule(replace(spec, core=core_of(model)))
            self.mixer: SumMixer | MonotonicMixer = SumMixer()
            if config.mixer_width is not None:
                assert world.state_space is not None
                self.world_columns = (ACTS, WORLD_STATE)
                self.mixer = MonotonicMixer(world.state_space.shape, world.slots, config.mixer_width)
        initialize([agents], agents, orthogonal=model.orthogonal_init, seed=seed)
        self.module = TeamNet(agents, self.mixer)
        self.parameters = FlatParameters(self.module)
        self.network = TorchNetwork(agents, prefix=AGENTS)

    @property
    @override
    def acting_range(self) -> tuple[int, int]:
        """Slice of the shared Q network's parameters, as (start, size); the mixer is not needed for acting."""
        return self.parameters.range_under(AGENTS)

    @override
    def outputs(
        self, views: Mapping[str, Tensor], batch: SampleBatch, target_views: Mapping[str, Tensor] | None = None
    ) -> TeamQNetworks:
        return TeamQNetworks(self.network, self.mixer, views, views if target_views is None else target_views)

    @override
    def behavior(self) -> BehaviorPolicy:
        """Creates the decentralized behavior policy, whose weights are loaded later."""
        start, _ = self.acting_range
        return BehaviorPolicy(
            acting_network(self.network, self.parameters, start=start),
            self.action_space,
            self._exploration(),
            self.leaves,
            normalize_observations=False,
            world_columns=self.world_columns,
        )

    def _exploration(self) -> Exploration:
        if self.exploration == "epsilon_greedy":
            return EpsilonGreedy(self.action_space.num_outputs)
        return custom_exploration(self.exploration, self.action_space)
