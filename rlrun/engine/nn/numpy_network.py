"""Network in NumPy that computes one env step, for acting; its encoders must have no parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from rlrun.engine.nn.dense_net import DenseNet, InvertedResidualNet, ResidualNet, in_memory
from rlrun.engine.nn.model_config import Activation
from rlrun.engine.nn.network_spec import VARIANCE_FLOOR, Core, Head, NetworkSpec, Tower
from rlrun.engine.nn.observation_leaves import dense_inputs
from rlrun.engine.nn.parameter_slot import ParameterSlot
from rlrun.engine.settings.registry import load_internal

if TYPE_CHECKING:
    from rlrun.engine.nn.numpy_cores import Gru, Lstm

CORES = {"gru": "rlrun.engine.nn.numpy_cores:Gru", "lstm": "rlrun.engine.nn.numpy_cores:Lstm"}
"""Import paths of recurrent cells by kind of core."""

Floats = NDArray[np.float32]

ParameterByName = Callable[[str], Floats]


class NumpyNetwork:
    """Acting network in NumPy whose layers refer to slices of one flat parameter vector.

    Pickling leaves out the parameters. Rollout workers with this network need no torch.

    Args:
        spec: Description of the network, which NumPy must be able to run.
        slots: Offset and shape of each parameter in the flat vector, by its name in the network.

    Attributes:
        state_size: Size of the recurrent state per env slot.
    """

    def __init__(self, spec: NetworkSpec, slots: Mapping[str, ParameterSlot]) -> None:
        self.spec = spec
        self.slots = dict(slots)
        self._places = {name: (slice(slot.offset, slot.offset + slot.size), slot.shape) for name, slot in slots.items()}
        self.state_size = spec.state_size
        self._vectors = tuple(name for name, _ in spec.vectors)
        self._towers = [_Tower(spec, i) for i in range(len(spec.towers))]
        self._plain = _plain_layers(spec)
        self._loaded: Floats | None = None  # parameters of a plain MLP
        self._copies: list[tuple[Floats, Floats]] = []  # arrays of the layers, and the same parameters in `_loaded`

    @property
    def plain_layers(self) -> tuple[str, tuple[tuple[str, Activation | None], ...]] | None:
        """For a plain MLP, the head's name and the (name, activation) of each layer; None for other networks."""
        return None if self._plain is None else (self._plain[0], self._plain[1].layers)

    def load(self, flat: Floats) -> None:
        """Loads parameters from a flat vector without modifying it, because it may be in Ray's object store."""
        if self._loaded is not None:
            self._loaded[...] = flat
            for array, loaded in self._copies:
                array[...] = loaded
            return
        source = flat if self._plain is None else flat.copy()

        def parameter(name: str) -> Floats:
            own, shape = self._places[name]
            return source[own].reshape(shape)

        if self._plain is not None:
            layers = self._plain[1]
            layers.load(parameter)
            self._loaded = source
            self._copies = [(array, parameter(name).T) for name, array in layers.parameters()]
            return
        for tower in self._towers:
            tower.load(parameter)

    def __call__(
        self,
        inputs: Mapping[str, Any],
        state: Floats | None = None,
        episode_starts: NDArray[np.bool_] | None = None,
        noise: Floats | None = None,
    ) -> tuple[dict[str, Floats], Floats | None]:
        """Runs the forward pass of one env step.

        Args:
            inputs: `obs`, a tree of [B, ...], and the spec's vectors [B, width].
            state: Recurrent state before the step, [B, state_size]; None without a core.
            episode_starts: Whether an episode begins with the step, [B]: its recurrent state is reset. None for no
                episode start.
            noise: Standard normal matrices for state-dependent exploration, [B, F * D]; None if there are none.

        Returns:
            Outputs by head, [B, K], and the recurrent state after the step. With `noise` there is a head of that name:
            the shifts of the means in units of the standard deviations, [B, D].
        """
        vectors = [inputs[name] for name in self._vectors]
        seen = self._towers[0].leaves
        x = self._trunk_inputs(seen, inputs["obs"], vectors)
        if self._plain is not None:
            name, layers = self._plain
            return {name: layers(x)}, None
        if episode_starts is not None and state is not None:
            state = np.where(episode_starts[:, None], np.float32(0), state)
        heads: dict[str, Floats] = {}
        after: list[Floats] = []
        for tower in self._towers:
            if tower.leaves is not seen:
                seen = tower.leaves
                x = self._trunk_inputs(seen, inputs["obs"], vectors)
            features = tower.trunk(x)
            if tower.core is not None:
                assert state is not None
                own = tower.core(features, state[:, tower.state])
                features = own[:, : tower.core.width]
                if vectors:
                    features = np.concatenate([features, *vectors], -1)
                after.append(own)
            for head in tower.heads:
                head(features, heads, noise)
        if len(after) > 1:
            return heads, np.concatenate(after, -1)
        return heads, after[0] if after else None

    def _trunk_inputs(self, seen: Any, observations: Any, vectors: list[Floats]) -> Floats:
        x = dense_inputs(seen, observations)
        return np.concatenate([x, *vectors], -1) if vectors and self.spec.core is None else x

    @override
    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles the architecture without parameters, which are broadcast separately."""
        return NumpyNetwork, (self.spec, self.slots)


def only_head(spec: NetworkSpec) -> tuple[Head, list[tuple[str, Activation | None]]] | None:
    """Returns the head and the layers of a network with a single head, no core and no normalization; otherwise None."""
    if len(spec.heads) > 1 or spec.core is not None or spec.normalization is not None:
        return None
    if spec.renormalizes or spec.batch_norm or spec.residual:
        return None
    (tower,) = spec.towers
    (head,) = tower.heads
    return head, [*trunk_layers(spec, tower), *stream_layers(spec, head, head.layer)]


def _plain_layers(spec: NetworkSpec) -> tuple[str, DenseNet] | None:
    """Returns the head name and the layers of a plain MLP; None for other networks."""
    found = only_head(spec)
    return (found[0].name, DenseNet(found[1])) if found is not None and found[0].is_plain else None


class _Tower:
    """NumPy layers of one tower.

    Attributes:
        leaves: Tree of `ObservationLeaf` that the tower sees.
        state: Slice of the tower's core in the recurrent state.
    """

    def __init__(self, spec: NetworkSpec, i: int) -> None:
        tower, size = spec.towers[i], spec.state_size // len(spec.towers)
        self.leaves = spec.leaves_of(tower)
        self.trunk: DenseNet | InvertedResidualNet | ResidualNet
        if spec.residual and spec.hiddens:
            kind = InvertedResidualNet if spec.batch_norm else ResidualNet
            self.trunk = kind(f"{tower.prefix}trunk", len(spec.hiddens), spec.activation)
        else:
            self.trunk = DenseNet(
                trunk_layers(spec, tower),
                spec.normalization,
                renormalizes=spec.renormalizes,
                batch_norm=spec.batch_norm,
            )
        self.core = None if spec.core is None else make_core(spec.core)
        self.state = slice(i * size, (i + 1) * size)
        self.core_layers = None if spec.core is None else spec.core_layers(tower)
        self.heads = [_Head(spec, head) for head in tower.heads]

    def load(self, parameter: ParameterByName) -> None:
        self.trunk.load(parameter)
        if self.core is not None and self.core_layers is not None:
            inputs, hidden = self.core_layers
            self.core.load(parameter(f"{inputs}.weight"), parameter(f"{inputs}.bias"), parameter(f"{hidden}.weight"))
        for head in self.heads:
            head.load(parameter)


def make_core(core: Core) -> Lstm | Gru:
    """Creates the NumPy cell of a recurrent core; its parameters are loaded later."""
    cell: Lstm | Gru = load_internal(CORES[core.kind])(core.width)
    return cell


class _Head:
    """NumPy layers of one output head."""

    def __init__(self, spec: NetworkSpec, head: Head) -> None:
        self.head = head
        self.name = head.name
        self.layers = self._stream(spec, head.layer)
        self.value_layers = self._stream(spec, head.value_layer) if head.value_layer else None
        self._log_stds: Floats = np.zeros(0, np.float32)

    def _stream(self, spec: NetworkSpec, name: str) -> DenseNet:
        return DenseNet(stream_layers(spec, self.head, name), spec.normalization, renormalizes=spec.renormalizes)

    def load(self, parameter: ParameterByName) -> None:
        self.layers.load(parameter)
        if self.value_layers is not None:
            self.value_layers.load(parameter)
        log_stds = self.head.log_stds
        if log_stds is not None:
            loaded = np.exp(parameter("std.log_stds")) if log_stds.state_dependent else parameter("log_stds")
            self._log_stds = in_memory(self._log_stds, loaded)

    def __call__(self, features: Floats, heads: dict[str, Floats], noise: Floats | None) -> None:
        """Adds the head's outputs for features [B, F] to `heads`."""
        outputs = self.layers(features)
        if not self.head.is_plain:
            outputs = self._completed(outputs, features, heads, noise)
        heads[self.name] = outputs

    def _completed(self, outputs: Floats, features: Floats, heads: dict[str, Floats], noise: Floats | None) -> Floats:
        """Aggregates the outputs of a dueling head, or appends log standard deviations to the means."""
        head = self.head
        if self.value_layers is not None:
            values = self.value_layers(features)[:, None]
            advantages = outputs.reshape(len(outputs), head.num_actions, -1)
            outputs = (values + (advantages - advantages.mean(1, keepdims=True))).reshape(outputs.shape)
        elif head.num_actions:
            own = head.numbers_per_action
            advantages = outputs[:, own:]
            outputs = outputs[:, :own] + advantages - advantages.mean(-1, keepdims=True)
        elif head.log_stds is not None and head.log_stds.state_dependent:
            stds = np.sqrt(np.square(features) @ np.square(self._log_stds) + np.float32(VARIANCE_FLOOR))
            if noise is not None:
                matrices = noise.reshape(-1, *self._log_stds.shape) * self._log_stds
                heads["noise"] = np.matmul(features[:, None], matrices)[:, 0] / stds
            outputs = with_log_stds(outputs, np.log(stds))
        elif head.log_stds is not None:
            outputs = with_log_stds(outputs, self._log_stds)
        return outputs


def with_log_stds(means: Floats, log_stds: Floats) -> Floats:
    """Appends log standard deviations to means [B, D], giving [B, 2 D]; a single vector [D] is used for all rows."""
    size = means.shape[1]
    both = np.empty_like(means, shape=(len(means), size + log_stds.shape[-1]))
    both[:, :size], both[:, size:] = means, log_stds
    return both


def trunk_layers(spec: NetworkSpec, tower: Tower) -> list[tuple[str, Activation | None]]:
    """Returns the hidden layers of a tower (subnetwork), between encoder and heads, as pairs (name, activation)."""
    return [(f"{tower.prefix}trunk.{2 * i}", spec.activation) for i in range(len(spec.hiddens))]


def stream_layers(spec: NetworkSpec, head: Head, name: str) -> list[tuple[str, Activation | None]]:
    """Returns the dense layers of an output head, or of one stream of a dueling head, as pairs (name, activation)."""
    if head.hiddens is None:
        return [(name, None)]
    own: list[tuple[str, Activation | None]] = [(f"{name}.{2 * i}", spec.activation) for i in range(len(head.hiddens))]
    return [*own, (f"{name}.{2 * len(head.hiddens)}", None)]
