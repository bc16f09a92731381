"""Torch network built from a `NetworkSpec`: its parameters, and the forward pass over sequences."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from typing_extensions import override

from rlrun.engine.data.tree import leaves, map_tree
from rlrun.engine.nn.encoders import HIDDEN_GAIN, ObservationEncoder, initialize_orthogonally, mlp
from rlrun.engine.nn.network_spec import VARIANCE_FLOOR, Head, NetworkSpec
from rlrun.engine.settings.registry import load_internal

CORES = {
    "core": "rlrun.engine.nn.torch_cores:run_core",
    "layers of a core": "rlrun.engine.nn.torch_cores:core_parts",
}
"""Import paths of recurrent cores."""

CUSTOM_NETWORK = "rlrun.engine.nn.custom_encoders:load_custom_network"
"""Import path of the function that creates a custom network in place of a `NetworkModule`."""


class NetworkModule(nn.Module):
    """Torch module of the network that a `NetworkSpec` describes, with parameters named after the spec's layers.

    Args:
        spec: Description of the network's encoders, layers and heads.
    """

    def __init__(self, spec: NetworkSpec) -> None:
        super().__init__()
        self.spec = spec
        self._run_core = None if spec.core is None else load_internal(CORES["core"])
        for tower in spec.towers:
            self.add_module(f"{tower.prefix}encoder", ObservationEncoder(spec.leaves_of(tower)))
            self.add_module(f"{tower.prefix}trunk", self._mlp(spec.inputs(tower), spec.hiddens))
            if spec.core is not None:
                layers = load_internal(CORES["layers of a core"])(spec.core, spec.trunk_features(tower))
                for name, layer in zip(spec.core_layers(tower), layers, strict=True):
                    self.add_module(name, layer)
            for head in tower.heads:
                features = spec.features_of(tower)
                self.add_module(head.layer, self._stream(head, features, head.layer_outputs))
                if head.value_layer:
                    self.add_module(head.value_layer, self._stream(head, features, head.numbers_per_action))
        for head in spec.heads:
            if head.log_stds is not None and head.log_stds.state_dependent:
                self.std = StateDependentStd(spec.features, head.log_stds.number, head.log_stds.first)
            elif head.log_stds is not None:
                self.log_stds = nn.Parameter(torch.full((head.log_stds.number,), head.log_stds.first))

    def _stream(self, head: Head, features: int, outputs: int) -> nn.Module:
        if head.hiddens is None:
            return self._linear(features, outputs)
        own = self._mlp(features, head.hiddens)
        return nn.Sequential(*own, nn.Linear(head.hiddens[-1] if head.hiddens else features, outputs))

    def _linear(self, inputs: int, outputs: int) -> nn.Linear:
        return nn.Linear(inputs, outputs)

    def _mlp(self, inputs: int, hiddens: Sequence[int]) -> nn.Sequential:
        return mlp(inputs, hiddens, self.spec.activation, self.spec.normalization)

    def _features(self, trunk: nn.Sequential, x: Tensor, inputs: Mapping[str, Any]) -> Tensor:
        features: Tensor = trunk(x)
        return features

    def _part(self, name: str) -> Any:
        return getattr(self, name)

    @override
    def forward(
        self,
        inputs: Mapping[str, Any],
        state: Tensor | None = None,
        episode_starts: Tensor | None = None,
        steps: Tensor | None = None,
    ) -> tuple[dict[str, Tensor], Tensor | None]:
        """Runs the network over S sequences of L consecutive steps.

        Args:
            inputs: `obs`, an array or tree of arrays [S, L, ...], and the additional inputs that the spec names, [S, L,
                width].
            state: Recurrent state before each sequence's first step, [S, state_size]; None without a core.
            episode_starts: Whether a step starts an episode, [S, L], which resets the recurrent state.
            steps: Indices, [S, N], of the steps in each sequence for which outputs are computed (only with a core);
                additional inputs are then [S, N, width]. None for all L steps.

        Returns:
            Outputs by head name, float32 [S, L, K], or [S, N, K] with `steps`, and the recurrent state after the
            last steps.
        """
        rows, length = leaves(inputs["obs"])[0].shape[:2]
        asked = length if steps is None else steps.shape[1]
        observations = map_tree(lambda leaf: leaf.flatten(0, 1), inputs["obs"])
        vectors = [inputs[name].flatten(0, 1) for name, _ in self.spec.vectors]
        heads: dict[str, Tensor] = {}
        before: Sequence[Tensor] = () if state is None else state.chunk(len(self.spec.towers), -1)
        after: list[Tensor] = []
        for i, tower in enumerate(self.spec.towers):
            encoded = self._part(f"{tower.prefix}encoder")(observations)
            trunk = self._part(f"{tower.prefix}trunk")
            if self.spec.core is None:
                features = self._features(trunk, torch.cat([encoded, *vectors], -1) if vectors else encoded, inputs)
            else:
                assert episode_starts is not None
                assert self._run_core is not None
                parts = [self._part(name) for name in self.spec.core_layers(tower)]
                features = trunk(encoded).view(rows, length, -1)
                features, own = self._run_core(self.spec.core, parts, features, before[i], episode_starts)
                if steps is not None:
                    features = features.gather(1, steps.unsqueeze(-1).expand(-1, -1, features.shape[-1]))
                features = torch.cat([features.flatten(0, 1), *vectors], -1) if vectors else features.flatten(0, 1)
                after.append(own)
            for head in tower.heads:
                heads[head.name] = self._head(head, features)
        # Losses are computed in float32, whatever the precision of the network.
        outputs = {name: head.float().view(rows, asked, -1) for name, head in heads.items()}
        return outputs, torch.cat(after, -1) if after else None

    def _head(self, head: Head, features: Tensor) -> Tensor:
        outputs: Tensor = self._part(head.layer)(features)
        if head.value_layer:
            advantages = outputs.view(len(outputs), head.num_actions, -1)
            return dueling_sum(self._part(head.value_layer)(features).unsqueeze(1), advantages).flatten(1)
        if head.num_actions:
            advantages = outputs[:, head.numbers_per_action :]
            return outputs[:, : head.numbers_per_action] + advantages - advantages.mean(-1, keepdim=True)
        if head.log_stds is None:
            return outputs
        log_stds = self.std(features) if head.log_stds.state_dependent else self.log_stds.expand(len(outputs), -1)
        return torch.cat([outputs, log_stds], -1)

    def output_layers(self) -> Iterator[tuple[nn.Module, float]]:
        """Yields the output layer of each head, and the gain that scales its initial weights."""
        for head in self.spec.heads:
            for name in (head.layer, head.value_layer):
                if name:
                    layer = self._part(name)
                    yield (layer if head.hiddens is None else layer[-1]), head.gain

    def initialize_hidden_layers(self, generator: torch.Generator) -> None:
        """Initializes encoders, hidden layers and recurrent cores with orthogonal weights."""
        for tower in self.spec.towers:
            initialize_orthogonally(self._part(f"{tower.prefix}encoder"), HIDDEN_GAIN, generator)
            initialize_orthogonally(self._part(f"{tower.prefix}trunk"), HIDDEN_GAIN, generator)
            for name in self.spec.core_layers(tower) if self.spec.core is not None else ():
                initialize_orthogonally(self._part(name), 1.0, generator)

    def initialize_forget_gates(self) -> None:
        """Initializes the forget-gate biases of LSTMs to 1.

        Source:
            Jozefowicz et al., "An empirical exploration of recurrent network architectures", 2015.
        """
        core = self.spec.core
        if core is not None and core.kind == "lstm":
            for tower in self.spec.towers:
                with torch.no_grad():
                    self._part(self.spec.core_layers(tower)[0]).bias[core.width : 2 * core.width] = 1.0


def dueling_sum(values: Tensor, advantages: Tensor) -> Tensor:
    """Returns the Q values of a dueling network, [N, A, K]: state value plus advantage minus the mean advantage.

    The mean includes actions that an action mask forbids.

    Args:
        values: State values of N observations, [N, 1, K], each as K numbers such as quantiles.
        advantages: Advantages of the A actions, [N, A, K].

    Source:
        Wang et al., arXiv:1511.06581, eq. 9.
    """
    return values + (advantages - advantages.mean(1, keepdim=True))


def initialize(networks: Sequence[NetworkModule], root: nn.Module, *, orthogonal: bool, seed: int) -> None:
    """Sets the initial parameters of networks: orthogonal weights, or torch's default initialization.

    Args:
        networks: The networks, in the order in which the weights of their output layers are drawn.
        root: Module that contains all networks.
        orthogonal: Whether to use orthogonal weights and zero biases instead of torch's default initialization.
        seed: Seed of the orthogonal initialization.
    """
    generator = torch.Generator().manual_seed(seed)
    if orthogonal:
        if all(network.spec.core is None for network in networks):
            initialize_orthogonally(root, HIDDEN_GAIN, generator)
        else:
            for network in networks:
                network.initialize_hidden_layers(generator)
        for network in networks:
            for layer, gain in network.output_layers():
                initialize_orthogonally(layer, gain, generator)
    for network in networks:
        network.initialize_forget_gates()


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Context manager that seeds torch's global generator, and restores its state on exit."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield


class StateDependentStd(nn.Module):
    """Log standard deviations that depend on the observation through the actor's last features (gSDE exploration).

    No gradient flows back into the features. The noise is a fixed function of the observation for several steps, which
    gives smooth motions, unlike independent noise. The noise is z E: the actor's last features z, [F], times a random
    matrix E, [F, D], of independent normal numbers with standard deviations S. For random E, the noise is normal with
    variance z^2 S^2 (elementwise squares).

    Args:
        features: Number of features of the actor's last layer, F.
        actions: Number of components of an action, D.
        log_std_init: Initial log standard deviation of every entry of the noise matrix.

    Source:
        Raffin, Kober and Stulp, arXiv:2005.05719, eqs. 6 to 9.
    """

    def __init__(self, features: int, actions: int, log_std_init: float) -> None:
        super().__init__()
        self.log_stds = nn.Parameter(torch.full((features, actions), log_std_init))

    @override
    def forward(self, features: Tensor) -> Tensor:
        """Computes log standard deviations [N, D] from N feature vectors [N, F]."""
        variances: Tensor = features.detach().square() @ (2 * self.log_stds).exp()
        return 0.5 * (variances + VARIANCE_FLOOR).log()
