"""Q policies of discrete actions (torch)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from typing_extensions import override

from rlrun.algorithms.dqn.expected_returns import ExpectedReturns
from rlrun.algorithms.dqn.q_values import QValues
from rlrun.algorithms.dqn.return_model import ReturnModel
from rlrun.data.sample_batch import SampleBatch
from rlrun.errors import UsageError
from rlrun.nn.model_config import ModelConfig
from rlrun.nn.network_module import NetworkModule, initialize, seeded
from rlrun.nn.network_spec import Head, NetworkSpec, Tower, hidden_widths, network_spec
from rlrun.nn.noisy_net import NoisyNet
from rlrun.nn.observation_leaves import ObservationTree
from rlrun.nn.torch_network import TorchNetwork
from rlrun.policy.acting_network import acting_network
from rlrun.policy.action_masks import allowed_argmax, policy_leaves
from rlrun.policy.action_spaces.make import discrete_actions
from rlrun.policy.behavior import BehaviorPolicy
from rlrun.policy.custom_network import load_custom_network
from rlrun.policy.decoder import Decoding
from rlrun.policy.exploration.epsilon_greedy import (
    EpsilonGreedy,
    EpsilonSpread,
    QExploration,
    QExplorationFactory,
    SoftQ,
)
from rlrun.policy.exploration.exploration import Exploration
from rlrun.policy.exploration.parameter_noise import AdaptiveNoise, LearnedNoise, NoisyPart, ParameterNoise, factors
from rlrun.policy.flat_parameters import FlatParameters
from rlrun.policy.make_decoder import embedding_decoder
from rlrun.policy.policy import Policy

NOISE = "parameter_noise"
"""Column of a minibatch with the noise of a noisy network, [1, 3, num_noise]."""

_ONLINE, _CHOICE, _TARGET = 0, 1, 2


@dataclass(frozen=True)
class QNetworks:
    """Q network and target network, as losses call them.

    A noisy network's passes have noise of their own: one for what is learned, one for the choice of the next action,
    one for the target.

    Attributes:
        policy: Whose networks they are.
        views: The network's parameters by name.
        target_views: The target network's.
        noise: Noise of the three passes, [3, num_noise]; None if parameters are not varied.
    """

    policy: QPolicy
    views: Mapping[str, Tensor]
    target_views: Mapping[str, Tensor]
    noise: Tensor | None = None

    def q_outputs(self, observations: Any) -> Tensor:
        """Returns the network's outputs for observations [S, L, ...]: K numbers per action, [S, L, A, K]."""
        return self._run(self.views, observations, _ONLINE)

    def target_q_outputs(self, observations: Any) -> Tensor:
        """Returns the outputs of the target network, without gradient."""
        with torch.no_grad():
            return self._run(self.target_views, observations, _TARGET)

    def values(self, observations: Any) -> Tensor:
        """Returns the values of all actions in observations [S, L, ...], [S, L, A]."""
        return self.means(self.q_outputs(observations))

    def target_values(self, observations: Any) -> Tensor:
        """Returns the target network's values, without gradient."""
        return self.means(self.target_q_outputs(observations))

    def greedy_actions(self, observations: Any) -> Tensor:
        """Returns the greedy allowed actions of the network, [S, L]."""
        with torch.no_grad():
            return self.allowed_argmax(self.means(self._run(self.views, observations, _CHOICE)), observations)

    def allowed_argmax(self, values: Tensor, observations: Any) -> Tensor:
        """Returns the actions [S, L] with the largest of values [S, L, A] among those that observations allow."""
        return allowed_argmax(values, observations)

    def means(self, q_outputs: Tensor) -> Tensor:
        """Returns the mean returns [...] of outputs [..., K]."""
        match self.policy.returns.kind:
            case "none":
                return q_outputs.squeeze(-1)
            case "quantile":
                return q_outputs.mean(-1)
        return (q_outputs.softmax(-1) * self.support(q_outputs)).sum(-1)

    def support(self, like: Tensor) -> Tensor:
        """Returns the support [K] of `c51`, on the device of another tensor."""
        model = self.policy.returns
        return torch.linspace(model.v_min, model.v_max, model.num_atoms, device=like.device)

    def _run(self, views: Mapping[str, Tensor], observations: Any, which: int) -> Tensor:
        module = self.policy.module
        if isinstance(module, NoisyNet) and self.noise is not None:
            views = module.drawn(views, self.noise[which])
        heads, _ = self.policy.network(views, {"obs": observations})
        outputs = heads["outputs"]
        if self.policy.decoding is not None:
            outputs = self.policy.decoding.outputs(views, heads, {"obs": observations})
        return outputs.view(*outputs.shape[:2], self.policy.action_space.num_outputs, -1)


class QPolicy(Policy):
    """Policy of Q values, or return distributions, of discrete actions.

    Args:
        observation_space: What the env shows.
        action_space: What it takes.
        model: The network.
        normalize_observations: Whether observations are filtered.
        seed: Seed of the first parameters.
        returns: What is estimated of an action's return; None for its mean.
        dueling: Whether the network has a stream for the observation's value.
        noisy_sigma: First standard deviation of noisy layers' parameters; None if layers are not noisy.
        exploration: How it explores: by name, or what makes an exploration of one's own.
        epsilon_spread: Gives each env slot of the workers an `epsilon` of its own; None for the same everywhere.
        records_values: Whether fragments tell what every action was worth.

    Raises:
        UsageError: If actions are not a finite number of choices, or a custom network does not fit.
    """

    estimates = "action_values"

    def __init__(
        self,
        observation_space: gymnasium.Space[Any],
        action_space: gymnasium.Space[Any],
        model: ModelConfig,
        *,
        normalize_observations: bool,
        seed: int,
        returns: ReturnModel | None = None,
        dueling: bool = False,
        noisy_sigma: float | None = None,
        exploration: QExploration | QExplorationFactory = "epsilon_greedy",
        epsilon_spread: EpsilonSpread | None = None,
        records_values: bool = False,
    ) -> None:
        self.action_space = discrete_actions(action_space)
        self.leaves = policy_leaves(
            observation_space, action_space, model, normalize_observations=normalize_observations
        )
        self.normalize_observations = normalize_observations
        self.returns = returns or ReturnModel()
        self.exploration: QExploration | QExplorationFactory = exploration
        self.epsilon_spread = epsilon_spread
        self.records_values = records_values
        self.decoding: Decoding | None = None
        num_actions, number = self.action_space.num_outputs, self.returns.numbers_per_action
        if model.module is None:
            spec = q_spec(self.leaves, model, num_actions, number, dueling=dueling)
            with seeded(seed):
                own = NetworkModule(spec)
                decoder = embedding_decoder(self.leaves, model, seed)
            initialize([own], own, orthogonal=model.orthogonal_init, seed=seed)
            net: nn.Module = own
            if decoder is not None:
                if dueling or noisy_sigma is not None or self.returns.kind != "none":
                    raise UsageError(
                        "model.action_embeddings: the value of an embedded action is one number, without a stream for "
                        "the observation's own; leave out dueling, noisy and distribution"
                    )
                self.decoding = Decoding(decoder, "decoder.")
        else:
            net, returned = load_custom_network(model, observation_space, num_actions * number, seed)
            found = tuple(returned.shape) if isinstance(returned, Tensor) else type(returned).__name__
            if found != (2, num_actions * number):
                raise UsageError(
                    f"the network {model.module} must return outputs [N, {num_actions * number}] for a Q policy; for "
                    f"N = 2 it returned {found}"
                )
        self.module: nn.Module = net if noisy_sigma is None else NoisyNet(net, noisy_sigma)
        self.network = TorchNetwork(self.module, custom_heads=() if model.module is None else ("outputs",))
        if self.decoding is not None:
            self.module = nn.ModuleDict({"network": net, "decoder": self.decoding.decoder})
            self.network = TorchNetwork(net, prefix="network.")
        self.parameters = FlatParameters(self.module)

    @override
    def outputs(
        self, views: Mapping[str, Tensor], batch: SampleBatch, target_views: Mapping[str, Tensor] | None = None
    ) -> QNetworks:
        noise = batch[NOISE][0] if NOISE in batch else None
        return QNetworks(self, views, views if target_views is None else target_views, noise)

    @override
    def draws(self, generator: np.random.Generator, rows: int, length: int) -> dict[str, NDArray[np.float32]]:
        """Returns the noise of a noisy network, the same for all rows of a minibatch; nothing for others."""
        if not isinstance(self.module, NoisyNet):
            return {}
        return {NOISE: factors(generator.standard_normal((1, 3, self.module.num_noise), np.float32))}

    @override
    def behavior(self) -> BehaviorPolicy:
        network = (
            acting_network(self.network, self.parameters)
            if self.decoding is None
            else self.decoding.acting(self.network, self.parameters)
        )
        return BehaviorPolicy(
            network if self.returns.kind == "none" else ExpectedReturns(network, self.returns),
            self.action_space,
            self._exploration(),
            self.leaves,
            normalize_observations=self.normalize_observations,
            parameter_noise=self._parameter_noise(),
            recording=QValues(self.action_space.num_outputs) if self.records_values else None,
        )

    def _exploration(self) -> Exploration:
        if not isinstance(self.exploration, str):
            return self.exploration(self.action_space.num_outputs)
        schedule = None if self.exploration == "parameter_noise" else "epsilon"
        greedy = EpsilonGreedy(self.action_space.num_outputs, schedule=schedule, spread=self.epsilon_spread)
        return SoftQ(greedy) if self.exploration == "soft_q" else greedy

    def _parameter_noise(self) -> ParameterNoise | None:
        if self.exploration == "parameter_noise":
            return AdaptiveNoise(self.action_space.num_outputs)
        return LearnedNoise(self._noisy_parts(self.module)) if isinstance(self.module, NoisyNet) else None

    def _noisy_parts(self, module: NoisyNet) -> list[NoisyPart]:
        slots = self.parameters.slots_of("", 0)
        return [
            NoisyPart(
                weight=slots[layer.weight].offset,
                bias=slots[layer.bias].offset if layer.bias else None,
                weight_sigma=slots[layer.weight_sigma].offset,
                bias_sigma=slots[layer.bias_sigma].offset if layer.bias else 0,
                inputs=layer.inputs,
                outputs=layer.outputs,
            )
            for layer in module.layers
        ]


def q_spec(
    leaves: ObservationTree, model: ModelConfig, num_actions: int, numbers_per_action: int, *, dueling: bool
) -> NetworkSpec:
    """Returns the spec of a Q network.

    A dueling network has two streams after the trunk, for state value and advantages, each with a last hidden layer of
    its own.

    Args:
        leaves: The tree of `ObservationLeaf`.
        model: Layers.
        num_actions: A.
        numbers_per_action: K.
        dueling: Whether there are two streams.
    """
    outputs = num_actions * numbers_per_action
    if model.action_embeddings is not None:
        return network_spec(leaves, model, Tower((Head("outputs", "stream", model.decoder_width),)))
    if not dueling:
        return network_spec(leaves, model, Tower((Head("outputs", "stream", outputs, hiddens=()),)))
    widths = hidden_widths(model, leaves)
    head = Head(
        "outputs",
        "stream",
        outputs,
        hiddens=widths[-1:],
        num_actions=num_actions,
        value_layer="value_stream",
    )
    return network_spec(leaves, model, Tower((head,)), hiddens=widths[:-1])
