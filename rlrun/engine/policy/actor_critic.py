"""Actor-critic policies: networks with a policy head and value heads (torch)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from torch import Tensor
from typing_extensions import override

from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.envs.spaces import Spaces
from rlrun.engine.messages.errors import UsageError
from rlrun.engine.nn.model_config import ModelConfig
from rlrun.engine.nn.network_module import CUSTOM_NETWORK, NetworkModule
from rlrun.engine.nn.network_spec import Head, NetworkSpec, Tower, core_of, network_spec, shares_value
from rlrun.engine.nn.observation_leaves import ObservationTree, encoded_leaves
from rlrun.engine.nn.seen_leaves import actor_leaves, critic_leaves
from rlrun.engine.nn.torch_network import TorchNetwork
from rlrun.engine.policy.acting_network import acting_network
from rlrun.engine.policy.action_masks import policy_leaves
from rlrun.engine.policy.action_spaces.make import make_action_space
from rlrun.engine.policy.actor_critic_outputs import ActorCriticOutputs
from rlrun.engine.policy.behavior import BehaviorPolicy
from rlrun.engine.policy.decoder import Decoding, acting_outputs, policy_outputs
from rlrun.engine.policy.exploration.exploration import Exploration
from rlrun.engine.policy.exploration.sampling import sampled
from rlrun.engine.policy.flat_parameters import FlatParameters
from rlrun.engine.policy.make_decoder import check_state_dependent_noise, decoded_network, policy_heads
from rlrun.engine.policy.policy import Policy
from rlrun.engine.policy.policy_config import PolicyConfig
from rlrun.engine.policy.recordings import LogProbsAndValues
from rlrun.engine.settings.registry import load_internal

if TYPE_CHECKING:
    from rlrun.engine.policy.action_spaces.make import AnyActions


class ActorCriticPolicy(Policy):
    """Policy whose network has one head for the action distribution, and one value head per reward stream.

    Reward streams are the env's rewards and additional ones, such as intrinsic rewards.

    Args:
        spaces: Observation and action space.
        config: Settings of the algorithm.
        seed: Seed of the initial parameters.

    Raises:
        UsageError: If a space is not supported, or a custom network is combined with additional reward streams.
    """

    estimates = "state_values"
    acts_on_device = True

    def __init__(self, spaces: Spaces, config: PolicyConfig, seed: int) -> None:
        model, streams = config.model, config.value_heads
        self.leaves = policy_leaves(*spaces, model, normalize_observations=config.normalize_observations)
        self.action_space = make_action_space(spaces.action)
        self.normalize_observations = config.normalize_observations
        self.model = model
        self.decoding: Decoding | None = None
        self.streams = streams
        check_state_dependent_noise(self.action_space, model)
        if model.module is None:
            self.module, self.network, self.decoding = decoded_network(
                self.spec(), self.leaves, self.action_space, model, seed
            )
        else:
            if streams:
                raise UsageError(
                    "model.module: curiosity and constraint do not work with a custom network; leave out module"
                )
            num_outputs = self.action_space.num_outputs
            self.module, returned = load_internal(CUSTOM_NETWORK)(model, spaces.observation, num_outputs, seed)
            found = [tuple(part.shape) for part in returned] if isinstance(returned, tuple) else type(returned).__name__
            if found != [(2, num_outputs), (2,)]:
                raise UsageError(
                    f"network {model.module} must return outputs [N, {num_outputs}] and values [N], but for N = 2 "
                    f"it returned {found}"
                )
            self.network = TorchNetwork(self.module, custom_heads=("outputs", "value"))
        self.parameters = FlatParameters(self.module)

    def spec(self) -> NetworkSpec:
        """Returns the description of the layers and output heads of the policy's network."""
        return policy_value_spec(self.leaves, self.action_space, self.model, self.streams)

    @override
    def outputs(
        self, views: Mapping[str, Tensor], batch: SampleBatch, target_views: Mapping[str, Tensor] | None = None
    ) -> ActorCriticOutputs:
        """Returns action distributions and state values of observations in S sequences of L steps, [S, L, ...].

        Masked actions get probability 0. A core starts from `state` [S, state_size]; `episode_starts` [S, L] resets it.
        """
        state, starts = (batch["state"], batch["episode_starts"]) if self._is_recurrent else (None, None)
        heads, _ = self.network(views, {"obs": batch["obs"]}, state, starts)
        return self.outputs_of(views, heads, batch)

    def outputs_of(
        self, views: Mapping[str, Tensor], heads: Mapping[str, Tensor], batch: SampleBatch
    ) -> ActorCriticOutputs:
        """Converts the outputs of network heads, [S, L, K] for S sequences of L steps, to distributions and values."""
        outputs = policy_outputs(self.decoding, views, heads, batch)
        further = {name: heads[f"{name}_value"].squeeze(-1) for name in self.streams}
        return ActorCriticOutputs(
            self.action_space.distribution(outputs), heads["value"].squeeze(-1), further_values=further
        )

    @override
    def behavior(self) -> BehaviorPolicy:
        """Creates the policy's acting side for rollout workers; its weights are loaded later.

        A NumPy network computes only action distributions at each step. Values are computed once per fragment of T
        steps, unless they depend on the recurrent state.
        """
        space = self.action_space
        values = {"values": "value", **{f"{name}_values": f"{name}_value" for name in self.streams}}
        value_heads = tuple(values.values())
        value_network = None
        if not self._is_recurrent:
            value_heads, value_network = (), acting_network(self.network, self.parameters, heads=value_heads)
        return BehaviorPolicy(
            acting_outputs(self.network, self.decoding, self.parameters, *value_heads),
            space,
            self._exploration(),
            self.leaves,
            normalize_observations=self.normalize_observations,
            recording=LogProbsAndValues(space, value_network, values),
        )

    def _exploration(self) -> Exploration:
        module = self.network.module
        return sampled(self.action_space, self.model, module.spec.features if isinstance(module, NetworkModule) else 0)

    @property
    def _is_recurrent(self) -> bool:
        return self.model.core is not None


def policy_value_spec(
    leaves: ObservationTree, actions: AnyActions, model: ModelConfig, streams: tuple[str, ...] = ()
) -> NetworkSpec:
    """Describes an actor-critic network; policy and value have separate layers unless the model settings share them.

    Args:
        leaves: Observation entries and how each enters the network.
        actions: The action space.
        model: The network's settings.
        streams: Names of the additional reward streams, whose value heads share the value function's layers.

    Raises:
        UsageError: If an autoregressive action has only one component.
    """
    policy = policy_heads(actions, model)
    values = (Head("value", "value_head", 1), *(Head(f"{name}_value", f"{name}_value_head", 1) for name in streams))
    if shares_value(model, leaves):
        towers = [Tower((*policy, *values), "policy_")]
    else:
        seen = encoded_leaves(actor_leaves(leaves, model)), encoded_leaves(critic_leaves(leaves, model))
        towers = [Tower(policy, "policy_", seen[0]), Tower(values, "value_", seen[1])]
    return network_spec(leaves, model, *towers, core=core_of(model))
