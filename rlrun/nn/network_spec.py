"""What a network is made of: one description, which a torch and a NumPy executor run alike.

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
"""What is added to a variance that depends on features, all of which may be 0."""


@dataclass(frozen=True)
class Core:
    """A recurrent layer behind the trunk.

    Attributes:
        kind: Which one.
        width: H, numbers that it puts out.
        layers: N, layers of a transformer.
        heads: Heads of each of them.
        memory_len: M, steps that each looks back.
    """

    kind: CoreKind
    width: int
    layers: int = 1
    heads: int = 1
    memory_len: int = 0

    @property
    def state_size(self) -> int:
        """Numbers of recurrent state.

        Those are the hidden state [H] and, of an LSTM, the cells [H] behind it; of a transformer what each layer was
        given in the last steps [N, M, H], and how many of those there were.
        """
        if self.kind == "gtrxl":
            return self.layers * self.memory_len * self.width + 1
        return 2 * self.width if self.kind == "lstm" else self.width


@dataclass(frozen=True)
class LogStds:
    """Log standard deviations that a head puts out behind its means.

    Attributes:
        number: How many.
        first: What they begin with.
        state_dependent: Whether they are those of state-dependent exploration (gSDE), instead of free parameters.
    """

    number: int
    first: float
    state_dependent: bool = False


@dataclass(frozen=True)
class Head:
    """What a network puts out under one name.

    Attributes:
        name: That name.
        layer: Name of its layer among the parameters.
        outputs: K, numbers that it puts out.
        gain: Gain of its orthogonal initialisation.
        hiddens: Dense layers of its own before it; None if the layer stands alone.
        num_actions: A, if the numbers are values of so many actions in dueling form; else 0.
        value_layer: Name of the layer that gives the observation's own value then; "" if the head's first outputs do.
        log_stds: Which of the numbers, the last ones, are log standard deviations; None for none.
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
        """Whether it is nothing but dense layers."""
        return not self.num_actions and self.log_stds is None

    @property
    def layer_outputs(self) -> int:
        """Numbers that its layer puts out."""
        return (
            self.outputs
            - (0 if self.log_stds is None else self.log_stds.number)
            + (self.numbers_per_action if self.num_actions and not self.value_layer else 0)
        )

    @property
    def numbers_per_action(self) -> int:
        """Numbers that describe one action's value."""
        return self.outputs // self.num_actions if self.num_actions else 0


@dataclass(frozen=True)
class Tower:
    """Encoder, trunk and core of its own, and the heads on them.

    Attributes:
        heads: What it puts out.
        prefix: What the names of its parts begin with.
    """

    heads: tuple[Head, ...]
    prefix: str = ""


@dataclass(frozen=True)
class NetworkSpec:
    """Encoders by observation leaf, dense trunk, recurrent core and heads, in one tower or several.

    Attributes:
        leaves: The tree of `ObservationLeaf` of the input `obs`, without an action mask.
        towers: What there is behind it; towers share nothing but the inputs.
        hiddens: Widths of the trunk's dense layers.
        activation: What follows each of them.
        vectors: Further inputs, by name and width: a critic's `actions`. They are put beside the encoded observation,
            or beside what the core puts out, so that the recurrent state is one of observations alone.
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
        """Whether no observation has an encoder with parameters, and nothing attends, so that NumPy can act."""
        attends = self.core is not None and self.core.kind == "gtrxl"
        return not attends and all(leaf.is_dense for leaf in leaves(self.leaves))

    @property
    def inputs(self) -> int:
        """Numbers that the trunk takes."""
        encoded: int = sum(leaf.width for leaf in leaves(self.leaves))
        return encoded + (self.vector_width if self.core is None else 0)

    @property
    def vector_width(self) -> int:
        """Numbers of the further inputs."""
        return sum(width for _, width in self.vectors)

    @property
    def trunk_features(self) -> int:
        """Numbers that the trunk puts out."""
        return self.hiddens[-1] if self.hiddens else self.inputs

    @property
    def features(self) -> int:
        """F, numbers that heads take."""
        return self.trunk_features if self.core is None else self.core.width + self.vector_width

    @property
    def state_size(self) -> int:
        """Numbers of recurrent state: those of each tower's core, one tower behind the other."""
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
        """Returns the part of the network that some heads need."""
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
    """Returns the network that settings describe.

    Args:
        leaves_of: The tree of `ObservationLeaf`.
        model: The settings.
        towers: What there is behind the observation.
        hiddens: Widths of the trunk's layers, if not all of the settings' are the trunk's.
        vectors: Further inputs by name and width.
        core: The recurrent layer.
    """
    own = hidden_widths(model, leaves_of) if hiddens is None else hiddens
    return NetworkSpec(encoded_leaves(leaves_of), towers, own, model.activation, vectors, core)


def core_of(model: ModelConfig) -> Core | None:
    """Returns the recurrent layer that settings describe; None for none."""
    if model.core is None:
        return None
    if model.core == "gtrxl":
        return Core("gtrxl", model.core_width, model.gtrxl.layers, model.gtrxl.heads, model.gtrxl.memory_len)
    return Core(model.core, model.core_width)


def hidden_widths(model: ModelConfig, leaves_of: ObservationTree) -> tuple[int, ...]:
    """Returns the widths of the dense layers behind an encoded observation.

    Unless they are set there are none where images are all that is observed: their encoders end in a dense layer.

    Args:
        model: The settings.
        leaves_of: The tree of `ObservationLeaf`.
    """
    only_images = all(leaf.kind == "image" for leaf in _seen(leaves_of))
    return model.widths_behind_images if only_images else model.dense_widths


def shares_value(model: ModelConfig, leaves_of: ObservationTree) -> bool:
    """Whether the value net shares the policy's layers.

    Unless that is set it does where an image is observed, or something for which there is an encoder of one's own.

    Args:
        model: The settings.
        leaves_of: The tree of `ObservationLeaf`.
    """
    if model.shared_value is None:
        return any(leaf.kind in ("image", "own") for leaf in _seen(leaves_of))
    return model.shared_value


def chosen_by_observation(model: ModelConfig, leaves_of: ObservationTree) -> dict[str, Any]:
    """Returns the settings of a network that are left to the observations, by name, with what these make of them."""
    chosen: dict[str, Any] = {}
    if model.hiddens is None:
        chosen["hiddens"] = list(hidden_widths(model, leaves_of))
    if model.shared_value is None:
        chosen["shared_value"] = shares_value(model, leaves_of)
    return chosen


def _seen(leaves_of: ObservationTree) -> list[ObservationLeaf]:
    return [leaf for _, leaf in named_leaves(encoded_leaves(leaves_of))]
