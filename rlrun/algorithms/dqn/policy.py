"""Policies that act with a Q network over Discrete actions (torch)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn
from typing_extensions import override

from rlrun.algorithms.dqn.networks import FRACTIONS, WAVES, QNetworks
from rlrun.algorithms.dqn.q_settings import QConfig
from rlrun.algorithms.dqn.q_values import ExpectedReturns, QValues
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.envs.spaces import Spaces
from rlrun.engine.messages.errors import UsageError
from rlrun.engine.nn.encoders import HIDDEN_GAIN
from rlrun.engine.nn.model_config import ModelConfig
from rlrun.engine.nn.network_module import CUSTOM_NETWORK, NetworkModule, initialize, seeded
from rlrun.engine.nn.network_spec import Head, NetworkSpec, Tower, hidden_widths, network_spec
from rlrun.engine.nn.observation_leaves import ObservationTree
from rlrun.engine.nn.torch_network import TorchNetwork
from rlrun.engine.policy.acting_network import acting_network
from rlrun.engine.policy.action_masks import policy_leaves
from rlrun.engine.policy.action_spaces.discrete import discrete_actions
from rlrun.engine.policy.behavior import BehaviorPolicy
from rlrun.engine.policy.decoder import Decoder, Decoding
from rlrun.engine.policy.exploration.epsilon_greedy import EpsilonGreedy, SoftQ
from rlrun.engine.policy.exploration.exploration import Exploration, custom_exploration
from rlrun.engine.policy.flat_parameters import FlatParameters
from rlrun.engine.policy.make_decoder import embedding_decoder
from rlrun.engine.policy.policy import Policy
from rlrun.engine.settings.registry import load_internal

if TYPE_CHECKING:
    from rlrun.engine.nn.noisy_net import NoisyNet
    from rlrun.engine.policy.exploration.parameter_noise import ParameterNoise

PARTS = {
    "adaptive noise": "rlrun.engine.policy.exploration.parameter_noise:AdaptiveNoise",
    "factors of noise": "rlrun.engine.policy.exploration.parameter_noise:factors",
    "fractions": "rlrun.algorithms.dqn.implicit_quantiles:drawn_fractions",
    "implicit quantiles": "rlrun.algorithms.dqn.implicit_quantiles:ImplicitQuantiles",
    "learned noise": "rlrun.engine.policy.exploration.parameter_noise:learned_noise",
    "noisy network": "rlrun.engine.nn.noisy_net:NoisyNet",
}
"""Import paths of the parts that noisy and implicit quantile networks add."""

NOISE = "parameter_noise"
"""Minibatch column of a noisy network's noise, [1, 3, num_noise]."""


class QPolicy(Policy):
    """Policy with a Q network over Discrete actions, which outputs expected returns or return distributions.

    Args:
        spaces: Observation and action space.
        config: Settings of DQN or a variant.
        seed: Seed for the initial parameters.

    Raises:
        UsageError: If actions are not a finite set, or a custom network has outputs of the wrong size.
    """

    estimates = "action_values"

    def __init__(self, spaces: Spaces, config: QConfig, seed: int) -> None:
        model, settings = config.model, config.q
        self.action_space = discrete_actions(spaces.action)
        self.leaves = policy_leaves(*spaces, model, normalize_observations=config.normalize_observations)
        self.normalize_observations = config.normalize_observations
        self.settings = settings
        self.returns = settings.returns
        self.decoding: Decoding | None = None
        num_actions, number = self.action_space.num_outputs, self.returns.numbers_per_action
        if model.module is None:
            if self.returns.kind == "iqn":
                spec = quantile_features_spec(self.leaves, model)
            else:
                spec = q_spec(self.leaves, model, num_actions, number, dueling=settings.dueling)
            with seeded(seed):
                own = NetworkModule(spec)
                decoder = self._decoder(model, seed)
            initialize([own], own, orthogonal=model.orthogonal_init, seed=seed)
            net: nn.Module = own
            if decoder is not None:
                self.decoding = Decoding(decoder, "decoder.")
        else:
            net, returned = load_internal(CUSTOM_NETWORK)(model, spaces.observation, num_actions * number, seed)
            found = tuple(returned.shape) if isinstance(returned, Tensor) else type(returned).__name__
            if found != (2, num_actions * number):
                raise UsageError(
                    f"network {model.module} must return outputs [N, {num_actions * number}] for a Q policy; "
                    f"for N = 2 it returned {found}"
                )
        self._noisy: NoisyNet | None = None
        if settings.noisy_sigma is not None and self.decoding is None:
            self._noisy = load_internal(PARTS["noisy network"])(net, settings.noisy_sigma)
            self._factors = load_internal(PARTS["factors of noise"])
        self.module: nn.Module = net if self._noisy is None else self._noisy
        self.network = TorchNetwork(self.module, custom_heads=() if model.module is None else ("outputs",))
        if self.decoding is not None:
            self.module = nn.ModuleDict({"network": net, "decoder": self.decoding.decoder})
            self.network = TorchNetwork(net, prefix="network.")
        self.parameters = FlatParameters(self.module)

    def _decoder(self, model: ModelConfig, seed: int) -> Decoder | None:
        embedded, settings = embedding_decoder(self.leaves, model, seed), self.settings
        if embedded is not None and (
            settings.dueling or settings.noisy_sigma is not None or self.returns.kind != "none"
        ):
            raise UsageError(
                "model.action_embeddings cannot be combined with dueling, noisy or distribution; leave these out"
            )
        if self.returns.kind == "iqn":
            widths = quantile_widths(self.leaves, model)
            self._drawn_fractions = load_internal(PARTS["fractions"])
            make = load_internal(PARTS["implicit quantiles"])
            quantiles: Decoder = make(self.returns, self.action_space.num_outputs, model, widths, seed=seed)
            return quantiles
        return embedded

    @override
    def outputs(
        self, views: Mapping[str, Tensor], batch: SampleBatch, target_views: Mapping[str, Tensor] | None = None
    ) -> QNetworks:
        noise = batch[NOISE][0] if NOISE in batch else None
        fractions = batch[FRACTIONS].chunk(2, 2)[0] if FRACTIONS in batch else None
        targets = views if target_views is None else target_views
        actions = self.action_space.num_outputs
        decode = None if self.decoding is None else self.decoding.outputs
        waves = batch.get(WAVES)
        return QNetworks(self.network, decode, self.returns, actions, views, targets, noise, fractions, waves)

    @override
    def draws(self, generator: np.random.Generator, rows: int, length: int) -> dict[str, NDArray[np.float32]]:
        """Samples a noisy network's noise, once per minibatch, or an implicit quantile network's fractions, per row."""
        if self.returns.kind == "iqn":
            drawn: dict[str, NDArray[np.float32]] = self._drawn_fractions(generator, rows, length, self.returns)
            return drawn
        if self._noisy is None:
            return {}
        return {NOISE: self._factors(generator.standard_normal((1, 3, self._noisy.num_noise), np.float32))}

    @override
    def behavior(self) -> BehaviorPolicy:
        network = (
            acting_network(self.network, self.parameters)
            if self.decoding is None
            else self.decoding.acting(self.network, self.parameters)
        )
        return BehaviorPolicy(
            network if self.returns.kind in ("none", "iqn") else ExpectedReturns(network, self.returns),
            self.action_space,
            self._exploration(),
            self.leaves,
            normalize_observations=self.normalize_observations,
            parameter_noise=self._parameter_noise(),
            recording=QValues(self.action_space.num_outputs) if self.settings.records_values else None,
        )

    def _exploration(self) -> Exploration:
        exploration = self.settings.exploration
        if ":" in exploration:
            return custom_exploration(exploration, self.action_space)
        schedule = None if exploration == "parameter_noise" else "epsilon"
        greedy = EpsilonGreedy(self.action_space.num_outputs, schedule=schedule, spread=self.settings.epsilon_spread)
        return SoftQ(greedy) if exploration == "soft_q" else greedy

    def _parameter_noise(self) -> ParameterNoise | None:
        noise: ParameterNoise | None = None
        if self.settings.exploration == "parameter_noise":
            noise = load_internal(PARTS["adaptive noise"])(self.action_space.num_outputs)
        elif self._noisy is not None:
            noise = load_internal(PARTS["learned noise"])(self._noisy.layers, self.parameters.slots_of("", 0))
        return noise


def quantile_widths(leaves: ObservationTree, model: ModelConfig) -> tuple[int, int]:
    """Widths of the layers before and after the product with embeddings in an implicit quantile network.

    The first layer outputs the features that are multiplied by embeddings; the second follows this product. They are
    the last two hidden layers; if only one width is set, both layers have this width.
    """
    widths = hidden_widths(model, leaves)
    return (widths[-2], widths[-1]) if len(widths) > 1 else (model.decoder_width, model.decoder_width)


def quantile_features_spec(leaves: ObservationTree, model: ModelConfig) -> NetworkSpec:
    """Spec of the lower part of an implicit quantile network, which maps observations to features psi(s).

    These features are later multiplied by the embeddings of fractions; see `ImplicitQuantiles`.
    """
    head = Head("outputs", "features", quantile_widths(leaves, model)[0], gain=HIDDEN_GAIN)
    return network_spec(leaves, model, Tower((head,)), hiddens=hidden_widths(model, leaves)[:-2])


def q_spec(
    leaves: ObservationTree, model: ModelConfig, num_actions: int, numbers_per_action: int, *, dueling: bool
) -> NetworkSpec:
    """Spec of a Q network, optionally dueling.

    A dueling network has separate streams for state value and advantages after the trunk, each with a hidden layer.

    Args:
        leaves: Entries of the observation with their encodings: a tree of `ObservationLeaf`.
        model: Settings of the layers.
        num_actions: Number of Discrete actions, A.
        numbers_per_action: Outputs per action, K: atoms or quantiles of a return distribution, or 1.
        dueling: Whether the network is dueling.
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
