"""Q policies of teams: each member has a network's values of its own actions, and a mixer has the team's (torch).

With a core each member has a recurrent state of its own. The network then runs over rows of a member's consecutive
steps, and the mixer over the same moment of all members.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from torch import Tensor
from typing_extensions import override

from rlrun.algorithms.dqn.policy import q_spec
from rlrun.algorithms.multi_agent.mixers import MonotonicMixer, SumMixer, TeamNet
from rlrun.algorithms.multi_agent.team_q_networks import TeamQNetworks
from rlrun.data.sample_batch import ACTS, WORLD_STATE, SampleBatch
from rlrun.envs.spaces import Spaces
from rlrun.nn.network_module import NetworkModule, initialize, seeded
from rlrun.nn.network_spec import core_of
from rlrun.nn.torch_network import TorchNetwork
from rlrun.policy.acting_network import acting_network
from rlrun.policy.action_masks import policy_leaves
from rlrun.policy.action_spaces.make import discrete_actions
from rlrun.policy.behavior import BehaviorPolicy
from rlrun.policy.exploration.epsilon_greedy import EpsilonGreedy
from rlrun.policy.exploration.exploration import Exploration
from rlrun.policy.exploration.own_exploration import own_exploration
from rlrun.policy.flat_parameters import FlatParameters
from rlrun.policy.policy import Policy
from rlrun.worlds.world_view import WorldView

if TYPE_CHECKING:
    from rlrun.algorithms.multi_agent.vdn import VDNConfig

AGENTS = "agents."


class TeamQPolicy(Policy):
    """A network that all members of a team share, and a mixer of the values of what they do.

    Args:
        spaces: Observation and action space of each member.
        config: Settings.
        seed: Seed of the first parameters.
        world: What their world is.

    Raises:
        UsageError: If actions are not a finite number of choices.
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
        """The members' network."""
        return self.parameters.range_under(AGENTS)

    @override
    def outputs(
        self, views: Mapping[str, Tensor], batch: SampleBatch, target_views: Mapping[str, Tensor] | None = None
    ) -> TeamQNetworks:
        return TeamQNetworks(self.network, self.mixer, views, views if target_views is None else target_views)

    @override
    def behavior(self) -> BehaviorPolicy:
        """Returns the acting side, without weights: each member acts on its own values."""
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
        return own_exploration(self.exploration, self.action_space)
