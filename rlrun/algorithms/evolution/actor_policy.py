"""A policy that is nothing but an actor: what it does follows from what it observes (torch)."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from typing_extensions import override

from rlrun.algorithms.evolution.box_mean import BoxMeanActions
from rlrun.algorithms.evolution.no_exploration import NoExploration
from rlrun.data.sample_batch import SampleBatch
from rlrun.envs.spaces import Spaces
from rlrun.nn.network_module import NetworkModule, initialize, seeded
from rlrun.nn.network_spec import Head, Tower, core_of, network_spec
from rlrun.nn.torch_network import TorchNetwork
from rlrun.policy.acting_network import acting_network
from rlrun.policy.action_masks import policy_leaves
from rlrun.policy.action_spaces.gaussian_box import GaussianBoxActions
from rlrun.policy.action_spaces.make import make_action_space
from rlrun.policy.behavior import BehaviorPolicy
from rlrun.policy.flat_parameters import FlatParameters
from rlrun.policy.policy import Policy
from rlrun.policy.policy_config import PolicyConfig


class ActorAndCandidates(nn.Module):
    """A network, and other parameters for it, which come behind its own in the flat vector.

    Args:
        actor: The network.
        num_candidates: How many others, N.
        num_parameters: A, parameters of each.
    """

    def __init__(self, actor: NetworkModule, num_candidates: int, num_parameters: int) -> None:
        super().__init__()
        self.actor = actor
        # In a list, since a module's own parameters come before those of the modules in it.
        self.candidates = nn.ParameterList([torch.zeros(num_candidates, num_parameters)] if num_candidates else [])


class ActorPolicy(Policy):
    """Takes the likeliest of finitely many choices, or of a Box what the network puts out, in units of its bounds.

    Args:
        spaces: Observation and action space.
        config: Settings.
        seed: Seed of the first parameters.
        num_candidates: N of the further vectors of parameters [N, A] after the network's own, zeros at first.

    Attributes:
        num_parameters: A, the network's parameters.

    Raises:
        UsageError: If a space is of a kind that no network or policy takes.
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
        """Runs the network on rows of observations [S, L, ...], [S, L, K]."""
        heads, _ = self.network(views, {"obs": batch["obs"]})
        return heads["outputs"]

    def first_parameters(self) -> NDArray[np.float32]:
        """Returns the network's own parameters as they are at the start of a run, [A]."""
        return self.parameters.gather(self.module)[: self.num_parameters].numpy()

    def set_candidates(self, candidates: NDArray[np.float32]) -> None:
        """Sets the other parameters at the start of a run, [N, A]."""
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
