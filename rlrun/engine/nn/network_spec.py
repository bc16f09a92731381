"""Description of a network as plain data, from which torch and NumPy networks with equal outputs are built.

`rlrun.engine.nn.network_module` creates the parameters and runs sequences; `rlrun.engine.nn.numpy_network` runs the
same parameters one env step at a time, for acting.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from rlrun.engine.data.tree import leaves, named_leaves
from rlrun.engine.nn.model_config import Activation, CoreKind, ModelConfig, Normalization
from rlrun.engine.nn.observation_leaf import ObservationLeaf
from rlrun.engine.nn.observation_leaves import ObservationTree, encoded_leaves, has_privileges

KEPT_UNITS = "kept_units"
"""Name of a network's input with dropout factors, and of the minibatch column with the factors of all critics."""

VARIANCE_FLOOR = 1e-6
"""Constant added to a gSDE variance, since all features may be 0."""


@dataclass(frozen=True)
class Core:
    """Description of a recurrent core (LSTM, GRU or GTrXL), which follows the shared hidden layers.

    Attributes:
        kind: Kind of the core: LSTM, GRU or GTrXL.
        width: Number of output features, H.
        layers: Number of transformer layers, N (GTrXL only).
        heads: Attention heads per transformer layer.
        memory_len: Past steps that each transformer layer attends to, M.
    """

    kind: CoreKind
    width: int
    layers: int = 1
    heads: int = 1
    memory_len: int = 0

    @property
    def state_size(self) -> int:
        """Number of floats in the core's recurrent state per env slot.

        A GRU's state is the hidden state [H]; an LSTM's also has the memory cells [H]. A transformer's state is the
        inputs of its layers in the last M steps, [N, M, H], and the number of these steps that are valid.
        """
        if self.kind == "gtrxl":
            return self.layers * self.memory_len * self.width + 1
        return 2 * self.width if self.kind == "lstm" else self.width


@dataclass(frozen=True)
class LogStds:
    """Description of a Gaussian head's log standard deviations, which are appended to its means.

    Attributes:
        number: Number of standard deviations.
        first: Initial value of each log standard deviation.
        state_dependent: Whether they depend on the observation (state-dependent exploration, gSDE); otherwise they are
            free parameters.
    """

    number: int
    first: float
    state_dependent: bool = False


@dataclass(frozen=True)
class Head:
    """Description of an output head of a network, such as action logits or state values.

    Attributes:
        name: Name of the head in the network's outputs.
        layer: Name of the output layer, by which its parameters are found.
        outputs: Number of outputs, K.
        gain: Factor by which the output layer's orthogonal initial weights are scaled.
        hiddens: Widths of hidden layers that belong to the head, before the output layer; None if there are none.
        num_actions: Number of actions A of a dueling head; else 0.
        value_layer: Name of the state-value layer of a dueling head; "" if the output layer computes this value as its
            first outputs.
        log_stds: Description of the log standard deviations, the last outputs of a Gaussian head; None for other heads.
    """

    name: str
    layer: str
    outputs: int
    gain: float = 1.0
    hiddens: tuple[int, ...] | None = None
    num_actions: int = 0
    value_layer: str = ""
    log_stds: LogStds | None = None

    @property
    def is_plain(self) -> bool:
        """Whether the head consists of dense layers only."""
        return not self.num_actions and self.log_stds is None

    @property
    def layer_outputs(self) -> int:
        """Number of outputs of the head's last linear layer, not counting log standard deviations.

        In a dueling head, Q values are computed from these outputs.
        """
        return (
            self.outputs
            - (0 if self.log_stds is None else self.log_stds.number)
            + (self.numbers_per_action if self.num_actions and not self.value_layer else 0)
        )

    @property
    def numbers_per_action(self) -> int:
        """Number of outputs per action in a dueling head, such as the atoms of C51; 0 for other heads."""
        return self.outputs // self.num_actions if self.num_actions else 0


@dataclass(frozen=True)
class Tower:
    """Description of an independent part of a network: encoder, hidden layers and core, with output heads on top.

    Attributes:
        heads: Output heads of the tower.
        prefix: Name prefix of the tower's layers.
        leaves: Observation entries that the tower sees; None for all that the network sees.
    """

    heads: tuple[Head, ...]
    prefix: str = ""
    leaves: Any = None


@dataclass(frozen=True)
class NetworkSpec:
    """Description of a network: observation encoders, hidden layers, recurrent core and output heads.

    A network consists of one or more towers, independent subnetworks, for example one for the policy and one for the
    value function.

    Attributes:
        leaves: Encoding of each entry of the input `obs`, except the action mask.
        towers: The subnetworks, which share no parameters.
        hiddens: Widths of the hidden layers (the trunk) between encoders and heads.
        activation: Activation function after each hidden layer.
        vectors: Widths of additional inputs by name, such as a critic's `actions`. They are concatenated with the
            encoded observation, or with the core's outputs, so that the recurrent state depends only on observations.
        core: Recurrent core between trunk and heads; None for a feed-forward network.
        normalization: Normalization between each hidden layer and its activation; None if there is none.
        renormalizes: Whether the inputs of each dense layer are normalized by batch renormalization.
        batch_norm: Whether batch normalization is applied to the inputs of the hidden layers, and to each layer's
            outputs before the activation.
        residual: Whether the hidden layers are a linear layer followed by residual blocks.
    """

    leaves: Any
    towers: tuple[Tower, ...]
    hiddens: tuple[int, ...]
    activation: Activation
    vectors: tuple[tuple[str, int], ...] = ()
    core: Core | None = None
    normalization: Normalization | None = None
    renormalizes: bool = False
    batch_norm: bool = False
    residual: bool = False

    @property
    def is_dense(self) -> bool:
        """Whether NumPy can run the network: encoders have no parameters, and the core is not a transformer."""
        attends = self.core is not None and self.core.kind == "gtrxl"
        return not attends and all(leaf.is_dense for tower in self.towers for leaf in leaves(self.leaves_of(tower)))

    def leaves_of(self, tower: Tower) -> Any:
        """Observation entries that the given tower (subnetwork) sees, a tree of `ObservationLeaf`."""
        return self.leaves if tower.leaves is None else tower.leaves

    def inputs(self, tower: Tower) -> int:
        """Number of features that enter the first hidden layer of the given tower (independent subnetwork)."""
        encoded: int = sum(leaf.width for leaf in leaves(self.leaves_of(tower)))
        return encoded + (self.vector_width if self.core is None else 0)

    @property
    def vector_width(self) -> int:
        """Total width of the inputs other than the observation, such as a critic's actions."""
        return sum(width for _, width in self.vectors)

    def trunk_features(self, tower: Tower) -> int:
        """Number of features that the hidden layers of a tower (subnetwork) compute, before a recurrent core."""
        return self.hiddens[-1] if self.hiddens else self.inputs(tower)

    def features_of(self, tower: Tower) -> int:
        """Number of features that enter the output heads of the given tower (independent subnetwork)."""
        return self.trunk_features(tower) if self.core is None else self.core.width + self.vector_width

    @property
    def features(self) -> int:
        """Number of features that enter the output heads of the first tower (subnetwork), which selects actions."""
        return self.features_of(self.towers[0])

    @property
    def state_size(self) -> int:
        """Number of floats in the network's recurrent state, summed over its towers (independent subnetworks)."""
        return 0 if self.core is None else self.core.state_size * len(self.towers)

    @property
    def heads(self) -> tuple[Head, ...]:
        """Output heads of the network, grouped by tower (independent subnetwork)."""
        return tuple(head for tower in self.towers for head in tower.heads)

    def core_layers(self, tower: Tower) -> tuple[str, ...]:
        """Names of a recurrent core's layers: input-to-hidden and hidden-to-hidden, or one name for a transformer."""
        assert self.core is not None
        if self.core.kind == "gtrxl":
            return (f"{tower.prefix}gtrxl",)
        return f"{tower.prefix}{self.core.kind}_inputs", f"{tower.prefix}{self.core.kind}_memory"

    def only(self, *names: str) -> NetworkSpec:
        """Returns a copy of this description that has only the named output heads."""
        towers = [replace(tower, heads=tuple(h for h in tower.heads if h.name in names)) for tower in self.towers]
        return replace(self, towers=tuple(tower for tower in towers if tower.heads))


def network_spec(
    leaves_of: Any,
    model: ModelConfig,
    *towers: Tower,
    hiddens: tuple[int, ...] | None = None,
    vectors: tuple[tuple[str, int], ...] = (),
    core: Core | None = None,
) -> NetworkSpec:
    """Returns the description of a network with the given towers; everything else comes from the model settings.

    Args:
        leaves_of: Encoding of each observation entry.
        model: Settings of the network.
        towers: Towers (independent subnetworks) of the network.
        hiddens: Widths of the hidden layers; None for the widths in the settings.
        vectors: Widths of additional inputs by name.
        core: Recurrent core; None for a feed-forward network.
    """
    own = hidden_widths(model, leaves_of) if hiddens is None else hiddens
    return NetworkSpec(encoded_leaves(leaves_of), towers, own, model.activation, vectors, core, model.normalization)


def core_of(model: ModelConfig) -> Core | None:
    """Returns the description of the recurrent core in the given settings; None for a feed-forward network."""
    if model.core is None:
        return None
    if model.core == "gtrxl":
        return Core("gtrxl", model.core_width, model.gtrxl.layers, model.gtrxl.heads, model.gtrxl.memory_len)
    return Core(model.core, model.core_width)


def hidden_widths(model: ModelConfig, leaves_of: ObservationTree) -> tuple[int, ...]:
    """Returns the widths of the hidden layers between the observation encoders and the heads.

    By default there are none if all observations are images, since image encoders end in a dense layer.

    Args:
        model: Settings of the network.
        leaves_of: Encoding of each observation entry.
    """
    only_images = all(leaf.kind == "image" for leaf in _seen(leaves_of))
    return model.widths_after_images if only_images else model.dense_widths


def shares_value(model: ModelConfig, leaves_of: ObservationTree) -> bool:
    """Whether policy and value function share encoders and hidden layers.

    By default layers are shared if the observation has an image or an entry with a custom encoder.

    Args:
        model: Settings of the network.
        leaves_of: Encoding of each observation entry.
    """
    if model.shared_value is None:
        return not has_privileges(model) and any(leaf.kind in ("image", "own") for leaf in _seen(leaves_of))
    return model.shared_value


def chosen_by_observation(model: ModelConfig, leaves_of: ObservationTree) -> dict[str, Any]:
    """Returns the values chosen for settings that are null, given the observations, by name of the setting."""
    chosen: dict[str, Any] = {}
    if model.hiddens is None:
        chosen["hiddens"] = list(hidden_widths(model, leaves_of))
    if model.shared_value is None:
        chosen["shared_value"] = shares_value(model, leaves_of)
    return chosen


def _seen(leaves_of: ObservationTree) -> list[ObservationLeaf]:
    return [leaf for _, leaf in named_leaves(encoded_leaves(leaves_of))]
