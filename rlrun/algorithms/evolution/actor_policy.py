"""Deterministic policies for evolution strategies (torch)."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from typing_extensions import override

from rlrun.algorithms.evolution.box_mean import BoxMeanActions, NoExploration
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.envs.spaces import Spaces
from rlrun.engine.nn.network_module import NetworkModule, initialize, seeded
from rlrun.engine.nn.network_spec import Head, Tower, core_of, network_spec
from rlrun.engine.nn.torch_network import TorchNetwork
from rlrun.engine.policy.acting_network import acting_network
from rlrun.engine.policy.action_masks import policy_leaves
from rlrun.engine.policy.action_spaces.box import GaussianBoxActions
from rlrun.engine.policy.action_spaces.make import make_action_space
from rlrun.engine.policy.behavior import BehaviorPolicy
from rlrun.engine.policy.flat_parameters import FlatParameters
from rlrun.engine.policy.policy import Policy
from rlrun.engine.policy.policy_config import PolicyConfig


class ActorAndCandidates(nn.Module):
    """Module with the parameters of an actor, followed by N candidate parameter vectors [N, A].

    Args:
        actor: Actor network.
        num_candidates: Number of candidates, N.
        num_parameters: Number of the actor's parameters, A.
    """

    def __init__(self, actor: NetworkModule, num_candidates: int, num_parameters: int) -> None:
        super().__init__()
        self.actor = actor
        # The candidates are in a ParameterList, because a module's own parameters would precede the actor's.
        self.candidates = nn.ParameterList([torch.zeros(num_candidates, num_parameters)] if num_candidates else [])


class ActorPolicy(Policy):
    """Deterministic policy: argmax of the logits, or, in a Box, the output scaled to the bounds.

    Args:
        spaces: Observation and action space.
        config: Settings of the algorithm.
        seed: Seed for the initial parameters.
        num_candidates: Number N of candidate parameter vectors [N, A] after the actor's parameters; the vectors are
            initialized to 0.

    Attributes:
        num_parameters: Number of the actor's parameters, A.

    Raises:
        UsageError: If no encoder supports the observation space, or no policy supports the action space.
    """

    module: ActorAndCandidates

    def __init__(self, spaces: Spaces, config: PolicyConfig, seed: int, *, num_candidates: int = 0) -> None:
        model = config.model
        self.leaves = policy_leaves(*spaces, model, normalize_observations=config.normalize_observations)
        actions = make_action_space(spaces.action)
        self.action_space = BoxMeanActions(actions.scale) if isinstance(actions, GaussianBoxActions) else actions
        self.normalize_observations = config.normalize_observations
        head = Head("outputs", "head", self.action_space.num_outputs, gain=0.01)
        spec = network_spec(self.leaves, model, Tower((head,)), core=core_of(model))
        with seeded(seed):
            network = NetworkModule(spec)
        initialize([network], network, orthogonal=model.orthogonal_init, seed=seed)
        self.num_parameters = sum(parameter.numel() for parameter in network.parameters())
        self.module = ActorAndCandidates(network, num_candidates, self.num_parameters)
        self.network = TorchNetwork(network, prefix="actor.")
        self.parameters = FlatParameters(self.module)

    @override
    def outputs(
        self, views: Mapping[str, Tensor], batch: SampleBatch, target_views: Mapping[str, Tensor] | None = None
    ) -> Tensor:
        """Actor outputs [rows, steps, num_outputs] for observations [rows, steps, ...]."""
        heads, _ = self.network(views, {"obs": batch["obs"]})
        return heads["outputs"]

    def first_parameters(self) -> NDArray[np.float32]:
        """Initial parameters of the actor, as a flat vector."""
        return self.parameters.gather(self.module)[: self.num_parameters].numpy()

    def set_candidates(self, candidates: NDArray[np.float32]) -> None:
        """Sets the initial parameter vectors of the N candidates, [N, num_parameters]."""
        self.module.candidates[0].data.copy_(torch.from_numpy(candidates))

    @override
    def behavior(self) -> BehaviorPolicy:
        return BehaviorPolicy(
            acting_network(self.network, self.parameters),
            self.action_space,
            NoExploration(self.action_space),
            self.leaves,
            normalize_observations=self.normalize_observations,
        )
