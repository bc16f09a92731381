"""Actor-critic policies: an action distribution and a value (torch)."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import gymnasium
from torch import Tensor, nn
from torch.func import functional_call

from rlrun.data.sample_batch import SampleBatch
from rlrun.data.tree import map_tree
from rlrun.errors import UsageError
from rlrun.functional.distributions import Distribution
from rlrun.nn.dense_net import DenseNet
from rlrun.nn.model_config import ModelConfig
from rlrun.nn.observation_leaves import observation_leaves
from rlrun.nn.policy_value_net import PolicyValueNet
from rlrun.policy.action_space import ActionModel, action_model
from rlrun.policy.behavior import ActorCriticBehavior, ActorCriticForward, DenseActorCritic
from rlrun.policy.flat_parameters import FlatParameters
from rlrun.policy.own_network import own_network
from rlrun.policy.policy import Policy
from rlrun.policy.state_dependent import (
    NoiseMatrix,
    StateDependentActor,
    StateDependentActorCritic,
    StateDependentBehavior,
)


@dataclass(frozen=True)
class ActorCriticOutputs:
    """What a loss of an actor-critic policy is a function of.

    Attributes:
        distribution: Over actions, [S, L].
        values: Estimated returns, [S, L].
    """

    distribution: Distribution
    values: Tensor


class ActorCriticPolicy(Policy):
    """A network with a policy head and a value head."""

    def __init__(
        self,
        observation_space: gymnasium.Space[Any],
        action_space: gymnasium.Space[Any],
        model: ModelConfig,
        *,
        normalize_observations: bool,
        seed: int,
    ) -> None:
        """Builds the network for the spaces.

        Raises:
            UsageError: If a space is of a kind that no network or policy takes.
        """
        self.leaves = observation_leaves(observation_space)
        self.action_model: ActionModel = action_model(action_space)
        self.normalize_observations = normalize_observations
        self.sde_sample_freq = model.sde_sample_freq
        if model.use_sde and (not self.action_model.free_log_stds or model.module is not None):
            raise UsageError("model.use_sde: only the continuous actions of rlrun's own networks are explored that way")
        if model.module is None:
            self.module: nn.Module = PolicyValueNet(
                self.leaves, self.action_model.num_outputs, self.action_model.free_log_stds, model, seed
            )
        else:
            num_outputs = self.action_model.num_outputs
            self.module, returned = own_network(model, observation_space, num_outputs, seed)
            found = [tuple(part.shape) for part in returned] if isinstance(returned, tuple) else type(returned).__name__
            if found != [(2, num_outputs), (2,)]:
                raise UsageError(
                    f"the network {model.module} must return outputs [N, {num_outputs}] and values [N]; for N = 2 it "
                    f"returned {found}"
                )
        self.parameters = FlatParameters(self.module)
        named = self.module.named_parameters(remove_duplicate=False)
        self._has_shared_parameters = sum(1 for _ in named) > len(self.parameters.slots)

    def outputs(
        self, views: Mapping[str, Tensor], batch: SampleBatch, target_views: Mapping[str, Tensor] | None = None
    ) -> ActorCriticOutputs:
        """Runs the network on rows of observations [S, L, ...]."""
        rows, length = batch["valid"].shape
        flat = map_tree(lambda leaf: leaf.flatten(0, 1), batch["obs"])
        outputs, values = functional_call(self.module, dict(views), (flat,), tie_weights=self._has_shared_parameters)
        # Whatever the network is computed in, losses are float32.
        distribution = self.action_model.distribution(outputs.float().view(rows, length, -1))
        return ActorCriticOutputs(distribution, values.float().view(rows, length))

    def behavior(self) -> ActorCriticBehavior:
        """Returns a NumPy mirror for dense networks, a copy of the module for others."""
        module = self.module
        if isinstance(module, PolicyValueNet) and module.std is not None:
            net = self._state_dependent(module)
            return StateDependentBehavior(net, self.action_model, self.leaves, self.normalize_observations)
        return ActorCriticBehavior(self._forward(), self.action_model, self.leaves, self.normalize_observations)

    def _state_dependent(self, module: PolicyValueNet) -> StateDependentActorCritic:
        table = self.parameters
        trunk = table.dense_layers(module.policy_trunk, "policy_trunk")
        value = list(trunk) if module.value_trunk is None else table.dense_layers(module.value_trunk, "value_trunk")
        value += table.dense_layers(module.value_head, "value_head")
        head = table.dense_layers(module.policy_head, "policy_head")
        slot = table.slot("std.log_stds")
        features, actions = slot.shape
        matrix = NoiseMatrix(slot.offset, features, actions, self.sde_sample_freq)
        actor = StateDependentActor(self.leaves, DenseNet(trunk), DenseNet(head), matrix)
        return StateDependentActorCritic(actor, DenseNet(value))

    def _forward(self) -> ActorCriticForward:
        module, table = self.module, self.parameters
        if not (isinstance(module, PolicyValueNet) and module.is_dense):
            from rlrun.policy.torch_behavior import TorchActorCritic

            return TorchActorCritic(copy.deepcopy(module))
        policy = table.dense_layers(module.policy_trunk, "policy_trunk")
        trunk = module.value_trunk
        value = list(policy) if trunk is None else table.dense_layers(trunk, "value_trunk")
        policy += table.dense_layers(module.policy_head, "policy_head")
        value += table.dense_layers(module.value_head, "value_head")
        log_stds = None
        if module.log_stds is not None:
            slot = table.slot("log_stds")
            log_stds = (slot.offset, slot.size)
        return DenseActorCritic(self.leaves, DenseNet(policy), DenseNet(value), log_stds)
