"""Q policies: what every action's return will be, of which the largest is taken (torch)."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.func import functional_call

from rlrun.data.sample_batch import SampleBatch
from rlrun.data.tree import leaves, map_tree
from rlrun.errors import UsageError
from rlrun.nn.dense_net import DenseNet
from rlrun.nn.model_config import ModelConfig
from rlrun.nn.noisy_net import NoisyNet
from rlrun.nn.observation_leaves import observation_leaves
from rlrun.nn.q_net import QNet
from rlrun.policy.action_space import CategoricalActions
from rlrun.policy.flat_parameters import FlatParameters
from rlrun.policy.own_network import own_network
from rlrun.policy.perturbation import AdaptiveNoise, LearnedNoise, NoisyPart, Perturbation, factors
from rlrun.policy.policy import Policy
from rlrun.policy.q_behavior import DenseQ, EpsilonSpread, Exploration, QBehavior, QForward
from rlrun.policy.return_model import ReturnModel

NOISE = "parameter_noise"
"""Column of a minibatch with the noise of a noisy network, [1, 3, num_noise]."""

_ONLINE, _CHOICE, _TARGET = 0, 1, 2


@dataclass(frozen=True)
class QNetworks:
    """What a loss of a Q policy is a function of: the network, and its target, to be run on what the loss chooses.

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

    def returns(self, observations: Any) -> Tensor:
        """Returns what describes the returns of all actions in observations [S, L, ...], [S, L, A, K]."""
        return self._run(self.views, observations, _ONLINE)

    def target_returns(self, observations: Any) -> Tensor:
        """Returns what the target network says of them, without gradient."""
        with torch.no_grad():
            return self._run(self.target_views, observations, _TARGET)

    def values(self, observations: Any) -> Tensor:
        """Returns the values of all actions in observations [S, L, ...], [S, L, A]."""
        return self.means(self.returns(observations))

    def target_values(self, observations: Any) -> Tensor:
        """Returns what the target network says of them, without gradient."""
        return self.means(self.target_returns(observations))

    def best_actions(self, observations: Any) -> Tensor:
        """Returns the actions [S, L] that the network itself thinks best."""
        with torch.no_grad():
            return self.means(self._run(self.views, observations, _CHOICE)).argmax(-1)

    def means(self, returns: Tensor) -> Tensor:
        """Returns the mean returns [...] that numbers [..., K] describe."""
        match self.policy.returns.kind:
            case "none":
                return returns.squeeze(-1)
            case "quantile":
                return returns.mean(-1)
        return (returns.softmax(-1) * self.support(returns)).sum(-1)

    def support(self, like: Tensor) -> Tensor:
        """Returns the returns [K] whose probabilities `c51` estimates, where another tensor is."""
        model = self.policy.returns
        return torch.linspace(model.v_min, model.v_max, model.num_atoms, device=like.device)

    def _run(self, views: Mapping[str, Tensor], observations: Any, which: int) -> Tensor:
        module = self.policy.module
        if isinstance(module, NoisyNet) and self.noise is not None:
            views = module.drawn(views, self.noise[which])
        rows, length = leaves(observations)[0].shape[:2]
        flat = map_tree(lambda leaf: leaf.flatten(0, 1), observations)
        outputs = functional_call(module, dict(views), (flat,), tie_weights=self.policy.has_shared_parameters)
        # Whatever the network is computed in, losses are float32.
        found: Tensor = outputs.float().view(rows, length, self.policy.action_model.num_outputs, -1)
        return found


class QPolicy(Policy):
    """A network that says what each of a finite number of actions will return.

    Attributes:
        spread: Gives each column of the workers an `epsilon` of its own; None for the same everywhere.
        records_values: Whether fragments tell what every action was worth.
    """

    spread: EpsilonSpread | None = None
    records_values: bool = False

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
        exploration: Exploration = "epsilon_greedy",
    ) -> None:
        """Builds the network for the spaces.

        Args:
            observation_space: What the env shows.
            action_space: What it takes.
            model: The network.
            normalize_observations: Whether observations are filtered.
            seed: Seed of the first parameters.
            returns: What is estimated of an action's return; None for its mean.
            dueling: Whether the network has a stream for the observation's value.
            noisy_sigma: First deviation of noisy layers' parameters; None if layers are not noisy.
            exploration: How it explores.

        Raises:
            UsageError: If actions are not a finite number of choices, or a network of the user's own does not fit.
        """
        if not isinstance(action_space, gymnasium.spaces.Discrete):
            raise UsageError(f"a Q policy chooses among a finite number of actions (Discrete), not in {action_space}")
        self.leaves = observation_leaves(observation_space)
        self.action_model = CategoricalActions(action_space)
        self.normalize_observations = normalize_observations
        self.returns = returns or ReturnModel()
        self.exploration = exploration
        number = self.returns.numbers_per_action
        if model.module is None:
            net: nn.Module = QNet(self.leaves, self.action_model.num_outputs, number, model, dueling=dueling, seed=seed)
        else:
            num_outputs = self.action_model.num_outputs * number
            net, returned = own_network(model, observation_space, num_outputs, seed)
            found = tuple(returned.shape) if isinstance(returned, Tensor) else type(returned).__name__
            if found != (2, num_outputs):
                raise UsageError(
                    f"the network {model.module} must return outputs [N, {num_outputs}] for a Q policy; for N = 2 it "
                    f"returned {found}"
                )
        self.module: nn.Module = net if noisy_sigma is None else NoisyNet(net, noisy_sigma)
        self.parameters = FlatParameters(self.module)
        named = self.module.named_parameters(remove_duplicate=False)
        self.has_shared_parameters = sum(1 for _ in named) > len(self.parameters.slots)

    def outputs(
        self, views: Mapping[str, Tensor], batch: SampleBatch, target_views: Mapping[str, Tensor] | None = None
    ) -> QNetworks:
        """Returns the networks."""
        noise = batch[NOISE][0] if NOISE in batch else None
        return QNetworks(self, views, views if target_views is None else target_views, noise)

    def draws(self, generator: np.random.Generator, rows: int, length: int) -> dict[str, NDArray[np.float32]]:
        """Returns the noise of a noisy network, the same for all rows of a minibatch; nothing for others."""
        if not isinstance(self.module, NoisyNet):
            return {}
        return {NOISE: factors(generator.standard_normal((1, 3, self.module.num_noise), np.float32))}

    def behavior(self) -> QBehavior:
        """Returns a NumPy mirror for dense networks, a copy of the module for others."""
        return QBehavior(
            self._forward(),
            self.action_model,
            self.leaves,
            self.normalize_observations,
            returns=self.returns,
            exploration=self.exploration,
            perturbation=self._perturbation(),
            spread=self.spread,
            records_values=self.records_values,
        )

    def _perturbation(self) -> Perturbation | None:
        if self.exploration == "parameter_noise":
            return AdaptiveNoise(self.action_model.num_outputs)
        return LearnedNoise(self._noisy_parts(self.module)) if isinstance(self.module, NoisyNet) else None

    def _noisy_parts(self, module: NoisyNet) -> list[NoisyPart]:
        def offset(name: str) -> int:
            return self.parameters.slot(name).offset

        return [
            NoisyPart(
                weight=offset(layer.weight),
                bias=offset(layer.bias) if layer.bias else None,
                weight_sigma=offset(layer.weight_sigma),
                bias_sigma=offset(layer.bias_sigma) if layer.bias else 0,
                inputs=layer.inputs,
                outputs=layer.outputs,
            )
            for layer in module.layers
        ]

    def _forward(self) -> QForward:
        prefix, net = ("net.", self.module.net) if isinstance(self.module, NoisyNet) else ("", self.module)
        if not (isinstance(net, QNet) and net.is_dense):
            from rlrun.policy.torch_behavior import TorchQ

            return TorchQ(copy.deepcopy(self.module))

        def mirror(layers: nn.Sequential, name: str) -> DenseNet:
            return DenseNet(self.parameters.dense_layers(layers, prefix + name))

        value_stream = None if net.value_stream is None else mirror(net.value_stream, "value_stream")
        return DenseQ(self.leaves, mirror(net.trunk, "trunk"), mirror(net.stream, "stream"), value_stream)
