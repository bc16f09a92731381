"""Q policies of teams: members' Q values, mixed to the team's (torch).

With a core each member has a recurrent state of its own. The network then runs over rows of a member's consecutive
steps, and the mixer over the same moment of all members.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.func import functional_call
from typing_extensions import override

from rlrun.algorithms.dqn.policy import q_spec
from rlrun.algorithms.multi_agent.mixers import MonotonicMixer, SumMixer, TeamNet, present_values
from rlrun.algorithms.recurrent_q.policy import RecurrentQNetworks
from rlrun.data.sample_batch import ACTS, WORLD_STATE, SampleBatch
from rlrun.data.tree import map_tree
from rlrun.envs.spaces import Spaces
from rlrun.nn.model_config import ModelConfig
from rlrun.nn.network_module import NetworkModule, initialize, seeded
from rlrun.nn.network_spec import core_of
from rlrun.nn.torch_network import TorchNetwork
from rlrun.policy.acting_network import acting_network
from rlrun.policy.action_masks import allowed_argmax, policy_leaves
from rlrun.policy.action_spaces.make import discrete_actions
from rlrun.policy.behavior import BehaviorPolicy
from rlrun.policy.exploration.epsilon_greedy import EpsilonGreedy
from rlrun.policy.flat_parameters import FlatParameters
from rlrun.policy.policy import Policy
from rlrun.worlds.world_view import WorldView

AGENTS = "agents."
MIXER = "mixer."


@dataclass(frozen=True)
class TeamQNetworks:
    """Q networks of a team's members, their mixer and target networks, as losses call them.

    Observations are trees as `rlrun.algorithms.multi_agent.team.Team` makes them.

    Attributes:
        policy: Whose networks they are.
        views: The networks' parameters by name.
        target_views: Those of the target networks.
    """

    policy: TeamQPolicy
    views: Mapping[str, Tensor]
    target_views: Mapping[str, Tensor]

    def team_values(self, observations: Any, actions: Tensor) -> Tensor:
        """Returns the team's values [S, L] of its members' actions [S, L, K]."""
        return self._mixed(self.views, self._values(self.views, observations), observations, actions)

    def target_team_values(self, observations: Any, actions: Tensor | None = None) -> Tensor:
        """Returns the target networks' values of actions [S, L, K], or of the greedy ones; no gradient."""
        with torch.no_grad():
            values = self._values(self.target_views, observations)
            chosen = self.best(values, observations) if actions is None else actions
            return self._mixed(self.target_views, values, observations, chosen)

    def greedy_actions(self, observations: Any) -> Tensor:
        """Returns the greedy allowed action of each member, [S, L, K]."""
        with torch.no_grad():
            return self.best(self._values(self.views, observations), observations)

    def unrolled(self, batch: SampleBatch, burn_in: int) -> tuple[Tensor, Tensor]:
        """Returns members' Q values after the burn-in, of the network and of the target network.

        Args:
            batch: `obs`, a tree of [S, burn_in + L, ...], `episode_starts` [S, burn_in + L, K], each member's own, and
                `state` [S, K * state_size].
            burn_in: Steps at the beginning of each row that only bring up the recurrent states.

        Returns:
            Values [S, L, K, A] of the network, through which gradients flow, and of the target network.
        """
        rows, span, members = batch["episode_starts"].shape
        of_members = SampleBatch(
            obs=map_tree(by_member, batch["obs"]["agents"]),
            episode_starts=by_member(batch["episode_starts"]),
            state=batch["state"].view(rows * members, -1),
        )
        networks = RecurrentQNetworks(self.policy.network, self.views, self.target_views)
        found = networks.unrolled(of_members, burn_in)
        own, target = (values.view(rows, members, span - burn_in, -1).transpose(1, 2) for values in found)
        return own, target

    def mixed(self, values: Tensor, observations: Any, actions: Tensor) -> Tensor:
        """Returns the team's values [S, L] of members' actions [S, L, K] by their values [S, L, K, A]."""
        return self._mixed(self.views, values, observations, actions)

    def target_mixed(self, values: Tensor, observations: Any, actions: Tensor) -> Tensor:
        """Returns the team's values by the target mixer; no gradient."""
        with torch.no_grad():
            return self._mixed(self.target_views, values, observations, actions)

    def best(self, values: Tensor, observations: Any) -> Tensor:
        """Returns the allowed actions [S, L, K] with the largest of members' values [S, L, K, A]."""
        return allowed_argmax(values, observations["agents"])

    def _values(self, views: Mapping[str, Tensor], observations: Any) -> Tensor:
        """Returns the values of each member's actions, [S, L, K, A]."""
        rows, length, members = observations["present"].shape
        agents = map_tree(lambda leaf: leaf.flatten(1, 2), observations["agents"])
        heads, _ = self.policy.network(views, {"obs": agents})
        return heads["outputs"].view(rows, length, members, -1)

    def _mixed(self, views: Mapping[str, Tensor], values: Tensor, observations: Any, actions: Tensor) -> Tensor:
        """Returns the team's values [S, L] of members' actions [S, L, K] by their values [S, L, K, A]."""
        taken = values.gather(-1, actions.unsqueeze(-1)).squeeze(-1)
        own = {name.removeprefix(MIXER): view for name, view in views.items() if name.startswith(MIXER)}
        members = present_values(taken, observations["present"])
        mixed: Tensor = functional_call(self.policy.module.mixer, own, (members, observations.get("state")))
        return mixed


def by_member(leaf: Tensor) -> Tensor:
    """Returns rows of teams [S, L, K, ...] as rows of their members, [S * K, L, ...]."""
    return leaf.transpose(1, 2).flatten(0, 1)


class TeamQPolicy(Policy):
    """Policy of a Q network that all members of a team share, and a mixer of their Q values.

    Args:
        spaces: Observation and action space of each member.
        world: What their world is.
        model: Layers of the members' network.
        mixer_width: Width of the hidden layer of a mixer that sees the world's state; None for the sum.
        seed: Seed of the first parameters.

    Raises:
        UsageError: If actions are not a finite number of choices.
    """

    module: TeamNet

    def __init__(
        self, spaces: Spaces, world: WorldView, model: ModelConfig, *, mixer_width: int | None, seed: int
    ) -> None:
        self.action_space = discrete_actions(spaces.action)
        self.leaves = policy_leaves(*spaces, model, normalize_observations=False)
        self.world_columns: tuple[str, ...] = (ACTS,)
        with seeded(seed):
            spec = q_spec(self.leaves, model, self.action_space.num_outputs, 1, dueling=False)
            agents = NetworkModule(replace(spec, core=core_of(model)))
            mixer: SumMixer | MonotonicMixer = SumMixer()
            if mixer_width is not None:
                assert world.state_space is not None
                self.world_columns = (ACTS, WORLD_STATE)
                mixer = MonotonicMixer(world.state_space.shape, world.slots, mixer_width)
        initialize([agents], agents, orthogonal=model.orthogonal_init, seed=seed)
        self.module = TeamNet(agents, mixer)
        self.parameters = FlatParameters(self.module)
        self.network = TorchNetwork(agents, prefix=AGENTS)

    @property
    @override
    def acting_range(self) -> tuple[int, int]:
        """The parameters of the members' network."""
        return self.parameters.range_under(AGENTS)

    @override
    def outputs(
        self, views: Mapping[str, Tensor], batch: SampleBatch, target_views: Mapping[str, Tensor] | None = None
    ) -> TeamQNetworks:
        return TeamQNetworks(self, views, views if target_views is None else target_views)

    @override
    def behavior(self) -> BehaviorPolicy:
        """Returns the acting side, without weights: each member acts on its own values."""
        start, _ = self.acting_range
        return BehaviorPolicy(
            acting_network(self.network, self.parameters, start=start),
            self.action_space,
            EpsilonGreedy(self.action_space.num_outputs, schedule="epsilon", spread=None),
            self.leaves,
            normalize_observations=False,
            world_columns=self.world_columns,
        )
