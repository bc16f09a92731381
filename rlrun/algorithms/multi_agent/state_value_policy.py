"""Actor-critic policies with normalized, optionally centralized values (torch)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from typing_extensions import override

from rlrun.algorithms.multi_agent.state_value_recording import LogProbsAndStateValues, value_inputs
from rlrun.algorithms.multi_agent.value_norm import MOMENTS, NETWORKS, NUM_MOMENTS, StateValueOutputs
from rlrun.engine.data.sample_batch import WORLD_STATE, SampleBatch
from rlrun.engine.envs.spaces import Spaces
from rlrun.engine.nn.model_config import ModelConfig
from rlrun.engine.nn.network_module import NetworkModule, initialize, seeded
from rlrun.engine.nn.network_spec import Head, NetworkSpec, Tower, network_spec
from rlrun.engine.nn.observation_leaves import encoded_leaves, observation_leaves
from rlrun.engine.nn.torch_network import TorchNetwork
from rlrun.engine.policy.acting_network import acting_network
from rlrun.engine.policy.action_masks import policy_leaves
from rlrun.engine.policy.action_spaces.make import make_action_space
from rlrun.engine.policy.actor_critic import policy_value_spec
from rlrun.engine.policy.behavior import BehaviorPolicy
from rlrun.engine.policy.decoder import Decoding, acting_outputs, policy_outputs
from rlrun.engine.policy.exploration.sampling import SampleActions, SampleInOrder
from rlrun.engine.policy.flat_parameters import FlatParameters
from rlrun.engine.policy.make_decoder import make_decoder
from rlrun.engine.policy.policy import Policy
from rlrun.engine.worlds.world_view import WorldView

if TYPE_CHECKING:
    from rlrun.algorithms.multi_agent.ippo import IPPOConfig
    from rlrun.algorithms.multi_agent.mappo import MAPPOConfig


class StateValuePolicy(Policy):
    """Actor-critic with a decentralized, optionally recurrent policy and a separate feed-forward value network.

    Args:
        spaces: Observation and action space.
        config: Settings of MAPPO or IPPO.
        seed: Seed for the initial parameters.
        world: Multi-agent env whose global state is an input of the centralized value network; None for a decentralized
            value network.

    Raises:
        UsageError: If the observation space or the action space is not supported.
    """

    def __init__(
        self, spaces: Spaces, config: MAPPOConfig | IPPOConfig, seed: int, world: WorldView | None = None
    ) -> None:
        model, state_space = config.model, None if world is None else world.state_space
        self.leaves = policy_leaves(*spaces, model, normalize_observations=config.normalize_observations)
        self.action_space = make_action_space(spaces.action)
        self.normalize_observations = config.normalize_observations
        self.is_recurrent = model.core is not None
        self.sees_state = state_space is not None
        self.sees_observation = config.value_sees_observation
        seen = {}
        if state_space is not None:
            seen["state"] = observation_leaves(state_space, {}, normalize=False, conv=model.conv)
        if self.sees_observation:
            seen["observation"] = encoded_leaves(self.leaves)
        value_spec = network_spec(seen, model, Tower((Head("value", "value_head", 1),), "value_"))
        spec = policy_value_spec(self.leaves, self.action_space, model)
        policy_spec = spec.only(*(head.name for head in spec.heads if head.name != "value"))
        self.module = _StateValueNets(policy_spec, value_spec, model, seed)
        with seeded(seed):
            decoder = make_decoder(self.leaves, self.action_space, model, seed)
        if decoder is not None:
            self.module.networks["decoder"] = decoder
        self.decoding = None if decoder is None else Decoding(decoder, f"{NETWORKS}decoder.")
        self.autoregressive = model.autoregressive
        self.parameters = FlatParameters(self.module)
        self.policy_network = TorchNetwork(self.module.networks["policy"], prefix=f"{NETWORKS}policy.")
        self.value_network = TorchNetwork(self.module.networks["value"], prefix=f"{NETWORKS}value.")

    @property
    @override
    def descended(self) -> str:
        """Name prefix that the parameters of both networks have, but the value moments do not."""
        return NETWORKS

    @override
    def outputs(
        self, views: Mapping[str, Tensor], batch: SampleBatch, target_views: Mapping[str, Tensor] | None = None
    ) -> StateValueOutputs:
        """Forward passes of policy and value network on sequences [S, L, ...].

        A recurrent policy starts from the column `state` [S, state_size].
        """
        state, starts = (batch["state"], batch["episode_starts"]) if self.is_recurrent else (None, None)
        heads, _ = self.policy_network(views, {"obs": batch["obs"]}, state, starts)
        outputs = policy_outputs(self.decoding, views, heads, batch)
        seen = value_inputs(batch, sees_state=self.sees_state, sees_observation=self.sees_observation)
        values, _ = self.value_network(views, {"obs": seen})
        return StateValueOutputs(
            self.action_space.distribution(outputs), values["value"].squeeze(-1), views[MOMENTS].detach()
        )

    @override
    def behavior(self) -> BehaviorPolicy:
        """Creates the behavior policy, with weights loaded later; it computes the values of a whole rollout at once."""
        recording = LogProbsAndStateValues(
            self.action_space,
            acting_network(self.value_network, self.parameters, heads=("value",)),
            moments_at=self.parameters.slot(MOMENTS).offset,
            sees_state=self.sees_state,
            sees_observation=self.sees_observation,
        )
        return BehaviorPolicy(
            acting_outputs(self.policy_network, self.decoding, self.parameters),
            self.action_space,
            SampleInOrder(self.action_space) if self.autoregressive else SampleActions(self.action_space),
            self.leaves,
            normalize_observations=self.normalize_observations,
            recording=recording,
            world_columns=(WORLD_STATE,) if self.sees_state else (),
        )


class _StateValueNets(nn.Module):
    """Policy network, value network, and running moments of the value targets.

    Args:
        policy: Spec of the policy network.
        value: Spec of the value network.
        model: Settings of both networks.
        seed: Seed for the initial parameters.
    """

    def __init__(self, policy: NetworkSpec, value: NetworkSpec, model: ModelConfig, seed: int) -> None:
        super().__init__()
        with seeded(seed):
            own = [NetworkModule(policy), NetworkModule(value)]
        self.networks = nn.ModuleDict(dict(zip(("policy", "value"), own, strict=True)))
        self.value_moments = nn.Parameter(torch.zeros(NUM_MOMENTS))
        initialize(own, self.networks, orthogonal=model.orthogonal_init, seed=seed)
