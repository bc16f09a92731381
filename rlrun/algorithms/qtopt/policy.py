"""Actor-free policies that maximise a Q function over continuous actions (torch)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from torch import Tensor
from typing_extensions import override

from rlrun.algorithms.actor_q.actor_q_nets import ActorQNets, critic_spec
from rlrun.algorithms.actor_q.networks import CRITICS, networks_of
from rlrun.algorithms.qtopt.cross_entropy_search import CrossEntropySearch
from rlrun.algorithms.qtopt.networks import NOISE, CriticsNetworks
from rlrun.data.sample_batch import SampleBatch
from rlrun.envs.spaces import Spaces
from rlrun.policy.acting_network import acting_network
from rlrun.policy.action_masks import policy_leaves
from rlrun.policy.action_spaces.box_scale import bounded_box
from rlrun.policy.action_spaces.deterministic_box import DeterministicBoxActions
from rlrun.policy.behavior import BehaviorPolicy
from rlrun.policy.exploration.action_noise import action_noise
from rlrun.policy.exploration.sampling import UniformUntil
from rlrun.policy.flat_parameters import FlatParameters
from rlrun.policy.policy import Policy

if TYPE_CHECKING:
    from rlrun.algorithms.qtopt.qtopt import QTOptConfig


NUM_CRITICS = 2


class CriticsPolicy(Policy):
    """Policy of twin Q functions, maximised over continuous actions by the cross-entropy method.

    Args:
        spaces: Observation and action space.
        config: Settings of QT-Opt.
        seed: Seed of the initial parameters.

    Raises:
        UsageError: If the action space is not a Box with finite bounds.
    """

    def __init__(self, spaces: Spaces, config: QTOptConfig, seed: int) -> None:
        self.leaves = policy_leaves(*spaces, config.model, normalize_observations=config.normalize_observations)
        self.action_space = DeterministicBoxActions(bounded_box(spaces.action, "a policy of critics"), squashes=False)
        self.config = config
        critic = critic_spec(self.leaves, config.model, 1, self.action_space.size)
        self.module = ActorQNets(critic, NUM_CRITICS, None, config.model, seed=seed)
        self.parameters = FlatParameters(self.module)
        self.critics, _ = networks_of(self.module)

    @property
    @override
    def acting_range(self) -> tuple[int, int]:
        """Slice of the first critic's parameters, as (start, size)."""
        return self.parameters.range_under(f"{CRITICS}0.")

    @override
    def outputs(
        self, views: Mapping[str, Tensor], batch: SampleBatch, target_views: Mapping[str, Tensor] | None = None
    ) -> CriticsNetworks:
        targets = views if target_views is None else target_views
        return CriticsNetworks(self.critics, None, views, targets, num_elites=self.config.cem_elites)

    @override
    def draws(self, generator: np.random.Generator, rows: int, length: int) -> dict[str, NDArray[np.float32]]:
        """Samples standard normal noise of the cross-entropy method for next actions."""
        shape = (rows, length, self.config.cem_iterations, self.config.cem_samples, self.action_space.size)
        return {NOISE: generator.standard_normal(shape, np.float32)}

    @override
    def behavior(self) -> BehaviorPolicy:
        start, _ = self.acting_range
        exploration = action_noise(self.config.exploration, 0.0, self.action_space)
        search = CrossEntropySearch(
            acting_network(self.critics[0], self.parameters, start=start),
            self.action_space.size,
            iterations=self.config.cem_iterations,
            samples=self.config.cem_samples,
            elites=self.config.cem_elites,
        )
        return BehaviorPolicy(
            search,
            self.action_space,
            UniformUntil(exploration, self.action_space, self.config.learning_starts),
            self.leaves,
            normalize_observations=self.config.normalize_observations,
        )
