"""Description of a network, which a torch and a NumPy executor run alike.

It is plain data. `rlrun.nn.network_module` makes parameters of it and runs them over rows [S, L];
`rlrun.nn.numpy_network` runs the same parameters one step [B] at a time, for acting.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from rlrun.data.tree import leaves, named_leaves
from rlrun.nn.model_config import Activation, CoreKind, ModelConfig
from rlrun.nn.observation_leaf import ObservationLeaf
from rlrun.nn.observation_leaves import ObservationTree, encoded_leaves

VARIANCE_FLOOR = 1e-6
"""Added to a variance computed from features (gSDE), since all of those may be 0."""


@dataclass(frozen=True)
class Core:
    """Description of a recurrent layer after the trunk.

    Attributes:
        kind: LSTM, GRU or GTrXL.
        width: H, output features.
        layers: N, layers of a transformer.
        heads: Attention heads of each of them.
        memory_len: M, past steps that each attends to.
    """

    kind: CoreKind
    width: int
    layers: int = 1
    heads: int = 1
    memory_len: int = 0

    @property
    def state_size(self) -> int:
        """Size of the recurrent state.

        It is the hidden state [H], followed by an LSTM's memory cells [H]. A transformer's are the inputs of each layer
        in the last steps [N, M, H], and the number of valid steps among them.
        """
        if self.kind == "gtrxl":
            return self.layers * self.memory_len * self.width + 1
        return 2 * self.width if self.kind == "lstm" else self.width


@dataclass(frozen=True)
class LogStds:
    """Log standard deviations of a Gaussian head, which follow its means.

    Attributes:
        number: Number of standard deviations.
        first: Their initial value.
        state_dependent: Whether they are those of state-dependent exploration (gSDE), instead of free parameters.
    """

    number: int
    first: float
    state_dependent: bool = False


@dataclass(frozen=True)
class Head:
    """An output head of a network.

    Attributes:
        name: Its name among the network's outputs.
        layer: Name of its layer among the parameters.
        outputs: K, its number of outputs.
        gain: Gain of its orthogonal initialisation.
        hiddens: Widths of dense layers of its own before the output layer; None for no stream of its own.
        num_actions: A, if the outputs are values of A actions in dueling form; else 0.
        value_layer: Name of the state-value layer of a dueling head; "" if the layer's first outputs are that value.
        log_stds: Log standard deviations, the last of the outputs; None for none.
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
        """Whether it consists of dense layers only."""
        return not self.num_actions and self.log_stds is None

    @property
    def layer_outputs(self) -> int:
        """Outputs of its layer, before dueling aggregation and without log standard deviations."""
        return (
            self.outputs
            - (0 if self.log_stds is None else self.log_stds.number)
            + (self.numbers_per_action if self.num_actions and not self.value_layer else 0)
        )

    @property
    def numbers_per_action(self) -> int:
        """Outputs per action, such as the atoms of a distributional value; 0 without dueling."""
        return self.outputs // self.num_actions if self.num_actions else 0


@dataclass(frozen=True)
class Tower:
    """An encoder, trunk and core, with the heads on top of them.

    Attributes:
        heads: Its heads.
        prefix: Prefix of its layers' names.
    """

    heads: tuple[Head, ...]
    prefix: str = ""


@dataclass(frozen=True)
class NetworkSpec:
    """Description of a network: observation encoders, dense trunk, recurrent core and heads, in one or more towers.

    Attributes:
        leaves: The tree of `ObservationLeaf` of the input `obs`, without an action mask.
        towers: The towers, which share nothing but the inputs.
        hiddens: Widths of the trunk's dense layers.
        activation: Activation after each of them.
        vectors: Further inputs, by name and width: a critic's `actions`. They are concatenated with the encoded
            observation, or with the core's outputs, so that the recurrent state depends on observations alone.
        core: The recurrent layer between trunk and heads; None for none.
    """

    leaves: Any
    towers: tuple[Tower, ...]
    hiddens: tuple[int, ...]
    activation: Activation
    vectors: tuple[tuple[str, int], ...] = ()
    core: Core | None = None

    @property
    def is_dense(self) -> bool:
        """Whether NumPy can execute it: no encoder has parameters, and the core is no transformer."""
        attends = self.core is not None and self.core.kind == "gtrxl"
        return not attends and all(leaf.is_dense for leaf in leaves(self.leaves))

    @property
    def inputs(self) -> int:
        """Input features of the trunk."""
        encoded: int = sum(leaf.width for leaf in leaves(self.leaves))
        return encoded + (self.vector_width if self.core is None else 0)

    @property
    def vector_width(self) -> int:
        """Total width of the further inputs."""
        return sum(width for _, width in self.vectors)

    @property
    def trunk_features(self) -> int:
        """Output features of the trunk."""
        return self.hiddens[-1] if self.hiddens else self.inputs

    @property
    def features(self) -> int:
        """F, input features of the heads."""
        return self.trunk_features if self.core is None else self.core.width + self.vector_width

    @property
    def state_size(self) -> int:
        """Size of the recurrent state: those of the towers' cores, concatenated."""
        return 0 if self.core is None else self.core.state_size * len(self.towers)

    @property
    def heads(self) -> tuple[Head, ...]:
        """The heads of all towers."""
        return tuple(head for tower in self.towers for head in tower.heads)

    def core_layers(self, tower: Tower) -> tuple[str, ...]:
        """Returns the names of a core's layers: of its inputs and of its hidden state, or a transformer's one."""
        assert self.core is not None
        if self.core.kind == "gtrxl":
            return (f"{tower.prefix}gtrxl",)
        # An LSTM's second layer has its name from the first version of checkpoints.
        second = "lstm_memory" if self.core.kind == "lstm" else "gru_hidden"
        return f"{tower.prefix}{self.core.kind}_inputs", f"{tower.prefix}{second}"

    def only(self, *names: str) -> NetworkSpec:
        """Returns the network with the named heads alone."""
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
    """Makes the description of a network from settings.

    Args:
        leaves_of: The tree of `ObservationLeaf`.
        model: The settings.
        towers: The towers.
        hiddens: Widths of the trunk's layers; None for those of the settings.
        vectors: Further inputs by name and width.
        core: The recurrent layer.
    """
    own = hidden_widths(model, leaves_of) if hiddens is None else hiddens
    return NetworkSpec(encoded_leaves(leaves_of), towers, own, model.activation, vectors, core)


def core_of(model: ModelConfig) -> Core | None:
    """Returns the recurrent layer of settings; None for none."""
    if model.core is None:
        return None
    if model.core == "gtrxl":
        return Core("gtrxl", model.core_width, model.gtrxl.layers, model.gtrxl.heads, model.gtrxl.memory_len)
    return Core(model.core, model.core_width)


def hidden_widths(model: ModelConfig, leaves_of: ObservationTree) -> tuple[int, ...]:
    """Returns the widths of the dense layers after the observation encoders.

    Unless they are set, there are none where only images are observed: their encoders end in a dense layer.

    Args:
        model: The settings.
        leaves_of: The tree of `ObservationLeaf`.
    """
    only_images = all(leaf.kind == "image" for leaf in _seen(leaves_of))
    return model.widths_behind_images if only_images else model.dense_widths


def shares_value(model: ModelConfig, leaves_of: ObservationTree) -> bool:
    """Whether the value net shares the policy's layers.

    Unless that is set, it does where an image is observed, or a part with a custom encoder.

    Args:
        model: The settings.
        leaves_of: The tree of `ObservationLeaf`.
    """
    if model.shared_value is None:
        return any(leaf.kind in ("image", "own") for leaf in _seen(leaves_of))
    return model.shared_value


def chosen_by_observation(model: ModelConfig, leaves_of: ObservationTree) -> dict[str, Any]:
    """Returns the network settings that depend on the observation space where they are null, by name."""
    chosen: dict[str, Any] = {}
    if model.hiddens is None:
        chosen["hiddens"] = list(hidden_widths(model, leaves_of))
    if model.shared_value is None:
        chosen["shared_value"] = shares_value(model, leaves_of)
    return chosen


def _seen(leaves_of: ObservationTree) -> list[ObservationLeaf]:
    return [leaf for _, leaf in named_leaves(encoded_leaves(leaves_of))]
