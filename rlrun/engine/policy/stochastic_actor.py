"""Stochastic policies without a value function (torch)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor
from typing_extensions import override

from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.envs.spaces import Spaces
from rlrun.engine.messages.errors import UsageError
from rlrun.engine.nn.network_module import CUSTOM_NETWORK, NetworkModule
from rlrun.engine.nn.network_spec import Tower, core_of, network_spec
from rlrun.engine.nn.seen_leaves import actor_leaves
from rlrun.engine.nn.torch_network import TorchNetwork
from rlrun.engine.policy.action_masks import policy_leaves
from rlrun.engine.policy.action_spaces.action_space import Distribution
from rlrun.engine.policy.action_spaces.make import make_action_space
from rlrun.engine.policy.behavior import BehaviorPolicy
from rlrun.engine.policy.decoder import Decoding, acting_outputs, policy_outputs
from rlrun.engine.policy.exploration.sampling import sampled
from rlrun.engine.policy.flat_parameters import FlatParameters
from rlrun.engine.policy.make_decoder import check_state_dependent_noise, decoded_network, policy_heads
from rlrun.engine.policy.policy import Policy
from rlrun.engine.policy.policy_config import PolicyConfig
from rlrun.engine.settings.registry import load_internal


@dataclass(frozen=True)
class StochasticActorOutputs:
    """Action distributions of a stochastic policy; input of losses.

    Attributes:
        distribution: Action distributions of S sequences with L steps, [S, L].
    """

    distribution: Distribution


class StochasticActorPolicy(Policy):
    """Stochastic policy without a value function, for imitation learning and sequence models.

    Its parameters have the same names and shapes as in the policy part of an `ActorCriticPolicy` with a separate value
    network. Fragments hold raw observations and actions, as replay buffers require.

    Args:
        spaces: Observation and action space.
        config: Settings of the algorithm.
        seed: Seed of the initial parameters.

    Raises:
        UsageError: If a space is not supported.
    """

    acts_on_device = True

    def __init__(self, spaces: Spaces, config: PolicyConfig, seed: int) -> None:
        self.config, model = config, config.model
        self.leaves = policy_leaves(*spaces, model, normalize_observations=config.normalize_observations)
        self.action_space = make_action_space(spaces.action)
        self.decoding: Decoding | None = None
        check_state_dependent_noise(self.action_space, model)
        if model.module is None:
            tower = Tower(policy_heads(self.action_space, model), "policy_")
            spec = network_spec(actor_leaves(self.leaves, model), model, tower, core=core_of(model))
            self.module, self.network, self.decoding = decoded_network(
                spec, self.leaves, self.action_space, model, seed
            )
        else:
            num_outputs = self.action_space.num_outputs
            self.module, returned = load_internal(CUSTOM_NETWORK)(model, spaces.observation, num_outputs, seed)
            found = tuple(returned.shape) if isinstance(returned, Tensor) else type(returned).__name__
            if found != (2, num_outputs):
                raise UsageError(
                    f"network {model.module} must return outputs [N, {num_outputs}] for a policy without "
                    f"values, but for N = 2 it returned {found}"
                )
            self.network = TorchNetwork(self.module, custom_heads=("outputs",))
        self.parameters = FlatParameters(self.module)

    @property
    def _own_network(self) -> NetworkModule | None:
        """Network built from rlrun's own layers; None for a custom network."""
        return self.network.module if isinstance(self.network.module, NetworkModule) else None

    @override
    def outputs(
        self, views: Mapping[str, Tensor], batch: SampleBatch, target_views: Mapping[str, Tensor] | None = None
    ) -> StochasticActorOutputs:
        """Returns action distributions for S sequences of L steps, [S, L], with forbidden actions masked.

        A recurrent core starts from `state` [S, state_size], or from zeros if the batch has none. It is reset to zeros
        where `episode_starts` [S, L] is set.
        """
        heads, _ = self.network(views, {"obs": batch["obs"]}, *self._before(batch))
        outputs = policy_outputs(self.decoding, views, heads, batch)
        return StochasticActorOutputs(self.action_space.distribution(outputs))

    def _before(self, batch: SampleBatch) -> tuple[Tensor, Tensor] | tuple[None, None]:
        """Returns the recurrent state before a batch's rows, and where episodes start; None without a core."""
        own = self._own_network
        if own is None or own.spec.core is None:
            return None, None
        starts = batch["episode_starts"]
        if "state" in batch:
            return batch["state"], starts
        return torch.zeros(len(starts), own.spec.state_size, device=starts.device), starts

    @override
    def behavior(self) -> BehaviorPolicy:
        return self.behaving(BehaviorPolicy)

    def behaving(self, make: Callable[..., BehaviorPolicy]) -> BehaviorPolicy:
        """Creates the policy's acting side by calling `make`, which takes the arguments of `BehaviorPolicy`."""
        own = self._own_network
        return make(
            acting_outputs(self.network, self.decoding, self.parameters),
            self.action_space,
            sampled(self.action_space, self.config.model, 0 if own is None else own.spec.features),
            self.leaves,
            normalize_observations=self.config.normalize_observations,
        )
