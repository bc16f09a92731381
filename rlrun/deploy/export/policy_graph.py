"""Recording of a policy's step, from observations to env actions, as a graph of ONNX operators."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from rlrun.deploy.export.functions import FUNCTIONS
from rlrun.deploy.export.graph import Array, Graph, Untraceable
from rlrun.deploy.export.traced import Traced, broadcast
from rlrun.engine.data.action_kind import ActionKind
from rlrun.engine.data.action_masks import mask_of
from rlrun.engine.data.space_kinds import batched
from rlrun.engine.data.tree import map_tree, named_leaves
from rlrun.engine.data.views import VIEW_FRAMES, VIEW_OBS, VIEW_PREV_ACTIONS, VIEW_PREV_REWARDS, split
from rlrun.engine.nn.acting import Floats, Heads, WrappedNetwork

if TYPE_CHECKING:
    from rlrun.engine.envs.spaces import Spaces
    from rlrun.engine.nn.torch_network import TorchActingNetwork, TorchModule
    from rlrun.engine.policy.behavior import BehaviorPolicy
    from rlrun.engine.training.act.privileged_parts import PrivilegedParts

OBS, ACTION, EPISODE_START, PREV_REWARD = "obs", "action", "episode_start", "prev_reward"

STATE = "state"


@dataclass(frozen=True)
class PolicyGraph:
    """Graph of a policy's step from observations to env actions.

    Attributes:
        graph: The graph, whose inputs and outputs are named.
        memory: Names of the parts of the policy's memory; each part X has an input `X_in` and an output `X_out`.
        noise: Distribution of each noise input, by name.
        scores: Name of the graph output that holds the network's logits, action values or distribution parameters.
    """

    graph: Graph
    memory: tuple[str, ...]
    noise: Mapping[str, str]
    scores: str


def policy_graph(
    behavior: BehaviorPolicy,
    spaces: Spaces,
    privileged: PrivilegedParts,
    *,
    actions: ActionKind,
    scores: str,
    any_batch: bool = True,
) -> PolicyGraph:
    """Records a policy's step, from observations to env actions, as a graph of ONNX operators.

    Args:
        behavior: The behavior policy, with its weights loaded.
        spaces: Observation and action space.
        privileged: Parts of an observation that only critics see; the graph has no inputs for these parts.
        actions: Whether actions are greedy or sampled; sampling takes noise as an additional input.
        scores: Name to give to the graph output that holds the network's output, such as logits.
        any_batch: Whether the graph accepts batches of any size; if not, it accepts one observation at a time.

    Raises:
        Untraceable: The policy does something that a graph cannot represent.
    """
    seen = privileged.actor_space(spaces.observation)

    def recorded(rows: int) -> PolicyGraph:
        recording = _Recording(behavior, Graph(rows, FUNCTIONS), privileged)
        seen.seed(0)
        examples = batched(seen, *(seen.sample() for _ in range(rows)))
        with np.errstate(all="ignore"):  # the examples are arbitrary numbers, which may overflow
            recording.step(examples, actions=actions, scores=scores)
        return PolicyGraph(recording.graph, tuple(recording.memory), recording.draws.distributions, scores)

    of_one = recorded(1)
    return recorded(_distinct_batch_size(of_one.graph)) if any_batch else of_one


def leaf_names(root: str, tree: Any) -> list[tuple[str, Any]]:
    """Names the leaves of an observation for a graph: `obs` for a bare array, `obs/camera/left` for a nested one."""
    return [(f"{root}/{path}" if path else root, leaf) for path, leaf in named_leaves(tree)]


class _Recording:
    """Recording of a policy's step.

    Args:
        behavior: The behavior policy.
        graph: The graph.
        privileged: The parts of an observation that only critics see.

    Attributes:
        memory: Names of the parts of the memory.
        draws: Generator of the noise.
    """

    def __init__(self, behavior: BehaviorPolicy, graph: Graph, privileged: PrivilegedParts) -> None:
        self.behavior = behavior
        self.graph = graph
        self.privileged = privileged
        self.memory: list[str] = []
        self.draws = NoiseInputs(self)

    def step(self, examples: Any, *, actions: ActionKind, scores: str) -> None:
        """Records the step for examples [B, ...] of observations."""
        behavior, samples = self.behavior, actions == "sampled"
        names = iter(leaf_names(OBS, examples))
        given = map_tree(lambda _: self.given(*next(names)), examples)
        observations = self._completed(given)
        view = self._viewed(observations)
        state = self._state_before()
        network = in_graph(behavior.network, self.graph)
        noise = behavior.exploration.network_draws(self.draws.generator, self.graph.batch) if samples else None
        heads, after = network({"obs": behavior.filter(view)}, state, None, noise)
        if samples:
            own = behavior.exploration.sample(heads, self.draws.generator, mask_of(observations))
        else:
            own = behavior.action_space.mode(heads["outputs"])
        if behavior.memory.inputs is not None:
            after = behavior.memory.inputs.after_actions(after, own)
        self._keep(own, after)
        for name, action in leaf_names(ACTION, behavior.action_space.to_env(own)):
            self.returned(name, action)
        self.returned(scores, heads["outputs"])

    def _completed(self, given: Any) -> Any:
        """Adds placeholders for the inputs that only critics see, since a recurrent critic runs alongside its actor."""
        placeholders = dict(self.privileged.placeholders)
        if not placeholders:
            return given
        if self.behavior.network.state_size:  # repeats the placeholders for each row of the inputs
            placeholders = map_tree(lambda leaf: np.where(self._starts(leaf.ndim), leaf, leaf), placeholders)
        return {**placeholders, **given}

    def given(self, name: str, array: Array) -> Traced:
        """Adds an input."""
        self.graph.inputs[name] = array
        return Traced(self.graph, name, array)

    def returned(self, name: str, value: Any) -> None:
        """Adds an output."""
        self.graph.outputs[name] = broadcast(self.graph, value, value.shape, value.dtype).name

    def _starts(self, ndim: int) -> Traced:
        """Whether an episode begins, [B, 1, ...]."""
        if EPISODE_START not in self.graph.inputs:
            self.given(EPISODE_START, np.zeros(self.graph.batch, np.bool_))
        starts = Traced(self.graph, EPISODE_START, self.graph.inputs[EPISODE_START])
        return starts.reshape(-1, *(1,) * (ndim - 1))

    def _kept(self, name: str, example: Array, first: Any) -> Any:
        """Adds a part of the memory; returns it, reset to its initial value where an episode begins."""
        self.memory.append(name)
        before = self.given(f"{name}_in", example)
        return np.where(self._starts(before.ndim), first, before)

    def _state_before(self) -> Any:
        size = self.behavior.network.state_size
        if not size:
            return None
        before = self._kept(STATE, np.zeros((self.graph.batch, size), np.float32), np.float32(0))
        inputs = self.behavior.memory.inputs
        return before if inputs is None else inputs.after_rewards(before, self._reward())

    def _reward(self) -> Any:
        """The reward of the last action, 0 where an episode begins."""
        reward = self.given(PREV_REWARD, np.zeros(self.graph.batch, np.float32))
        return np.where(self._starts(1), np.float32(0), reward)

    def _viewed(self, observations: Any) -> Any:
        """Observations as the network sees them, together with earlier ones from the memory."""
        views = self.behavior.memory.views
        if views is None:
            return observations
        name = VIEW_FRAMES if views.has_frames else VIEW_OBS
        parts = split(observations, name)
        latest = dict(parts)
        nothing = views.before_episode(parts[name])
        if VIEW_PREV_REWARDS in nothing:
            latest[VIEW_PREV_REWARDS] = self._reward()
        for key, tree in nothing.items():
            named = iter(leaf_names(_memory_name(key), tree))
            seen = map_tree(lambda first: self._seen(next(named)[0], first), tree)  # noqa: B023
            parts[key] = seen if key == VIEW_PREV_ACTIONS else map_tree(_pushed, seen, latest[key])
        self._view = parts
        return parts

    def _seen(self, name: str, first: Array) -> Any:
        return self._kept(name, np.repeat(first[None], self.graph.batch, axis=0), first)

    def _keep(self, own: Any, after: Any) -> None:
        """Adds the memory after the step to the outputs."""
        if after is not None:
            self.returned(f"{STATE}_out", after)
        if self.behavior.memory.views is None:
            return
        for key in (VIEW_FRAMES, VIEW_PREV_ACTIONS, VIEW_PREV_REWARDS):
            if key in self._view:
                kept = self._view[key]
                if key == VIEW_PREV_ACTIONS:
                    kept = _pushed(kept, own.reshape(len(own), *self.behavior.action_space.action_shape))
                for name, part in leaf_names(_memory_name(key), kept):
                    self.returned(f"{name}_out", part)


def _memory_name(key: str) -> str:
    return key.removeprefix("view:")


def _pushed(kept: Any, latest: Any) -> Any:
    """Buffers [B, K, ...] with the latest entries [B, ...] at the end, without the oldest."""
    return np.concatenate([kept[:, 1:], latest[:, None].astype(kept.dtype, copy=False)], 1)


class NoiseInputs:
    """Stands in for a policy's random generator during export: each sample becomes an input of the ONNX graph."""

    def __init__(self, recording: _Recording) -> None:
        self._recording = recording
        self.distributions: dict[str, str] = {}
        self.generator: Any = self

    def standard_normal(self, shape: Sequence[int], dtype: Any = np.float64) -> Traced:
        """Adds an input for standard normal noise to the ONNX graph, and returns it in place of a sample."""
        return self._drawn("normal", shape, dtype)

    def standard_exponential(self, shape: Sequence[int], dtype: Any = np.float64) -> Traced:
        """Adds an input for standard exponential noise to the ONNX graph, and returns it in place of a sample."""
        return self._drawn("exponential", shape, dtype)

    def logistic(self, size: Sequence[int]) -> Traced:
        """Adds an input for standard logistic noise to the ONNX graph, and returns it in place of a sample."""
        return self._drawn("logistic", size, np.float64)

    def random(self, shape: Sequence[int], dtype: Any = np.float64) -> Traced:
        """Adds an input for uniform noise in [0, 1) to the ONNX graph, and returns it in place of a sample."""
        return self._drawn("uniform", shape, dtype)

    def __getattr__(self, name: str) -> Any:
        raise Untraceable(f"noise of kind {name}")

    def _drawn(self, distribution: str, shape: Sequence[int], dtype: Any) -> Traced:
        batch, number = self._recording.graph.batch, len(self.distributions)
        name = f"noise_{number + 1}" if number else "noise"
        self.distributions[name] = distribution
        given = self._recording.given(name, np.full((batch, int(np.prod(shape)) // batch), 0.5, dtype))
        return given.reshape(*shape)


def _distinct_batch_size(of_one: Graph) -> int:
    """The smallest number of rows that divides no dimension of a graph of one row.

    In a graph with this many rows, a dimension is divisible by this number exactly if it grows with the batch.
    """
    arrays = [*of_one.inputs.values(), *of_one.constants.values(), *(node.array for node in of_one.nodes)]
    sizes = {size for array in arrays for size in array.shape} - {0}
    return next(rows for rows in itertools.count(2) if all(size % rows for size in sizes))


def in_graph(network: Any, graph: Graph) -> Any:
    """Copies an acting network; the copy, when run, records its computation (also in torch modules) in a graph."""
    from rlrun.engine.nn.torch_network import TorchActingNetwork, TorchModule

    if isinstance(network, TorchActingNetwork):
        return _TorchInGraph(network, graph)
    if isinstance(network, TorchModule):
        return _ModuleInGraph(network, graph)
    parts = {
        name: in_graph(part, graph)
        for name, part in vars(network).items()
        if name == "network" or isinstance(part, WrappedNetwork | TorchActingNetwork | TorchModule)
    }
    if not parts:
        return network  # copying would drop the weights
    copied = copy.copy(network)
    vars(copied).update(parts)
    return copied


class _TorchInGraph:
    """Acting network in torch that takes traced arrays.

    Args:
        network: The acting network.
        graph: The graph.
    """

    def __init__(self, network: TorchActingNetwork, graph: Graph) -> None:
        self.network = network
        self.graph = graph
        self.state_size = network.state_size

    def load(self, flat: Floats) -> None:
        """Loads parameters [A]."""
        self.network.load(flat)

    def __call__(
        self, inputs: Mapping[str, Any], state: Any = None, episode_starts: Any = None, noise: Any = None
    ) -> tuple[Heads, Any]:
        """Forward pass of one env step; see `ActingNetwork`."""
        from rlrun.deploy.export.torch_functions import recorded

        names: list[str] = []

        def forward(own: Any, before: Any) -> Any:
            heads, after = self.network.forward(own, *before)
            names[:] = heads
            return (*heads.values(), *([] if after is None else [after]))

        found = recorded(self.graph, forward, dict(inputs), () if state is None else (state,))
        return dict(zip(names, found, strict=False)), None if state is None else found[-1]


class _ModuleInGraph:
    """Torch module that takes traced arrays.

    Args:
        module: The module.
        graph: The graph.
    """

    def __init__(self, module: TorchModule, graph: Graph) -> None:
        self._module = module
        self._graph = graph

    def __call__(self, *arrays: Traced) -> Traced:
        from rlrun.deploy.export.torch_functions import recorded

        found: list[Traced] = recorded(self._graph, lambda *tensors: (self._module.module(*tensors),), *arrays)
        return found[0]
