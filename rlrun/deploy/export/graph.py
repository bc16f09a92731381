"""Graph of a policy's step in ONNX's operators, of which a file is written."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


class Untraceable(Exception):
    """Raised where a policy does something that no exported graph can do; the message is what it does."""


@dataclass(frozen=True)
class OnnxNode:
    """Call of an operator of ONNX.

    Attributes:
        operator: Name of the operator.
        inputs: Names of the values that it reads.
        output: Name of the value that it computes.
        attributes: Its settings.
        array: The value for the examples, [B, ...].
    """

    operator: str
    inputs: tuple[str, ...]
    output: str
    attributes: dict[str, Any]
    array: Array


@dataclass
class Graph:
    """Operators in the order of execution, with the values that they read.

    Shapes are those of examples of `batch` rows: a dimension that `batch` divides is a multiple of the batch size.

    Attributes:
        batch: B, number of rows of the examples: a number that divides no other dimension.
        functions: For functions of NumPy, and for reading and writing of parts, the functions that record them.
        nodes: Calls of operators.
        constants: Values that are known.
        inputs: Examples of the values that are given for each call.
        outputs: Name of the value of each output.
    """

    batch: int
    functions: Mapping[Callable[..., Any], Callable[..., Any]]
    nodes: list[OnnxNode] = field(default_factory=list)
    constants: dict[str, Array] = field(default_factory=dict)
    inputs: dict[str, Array] = field(default_factory=dict)
    outputs: dict[str, str] = field(default_factory=dict)
    _names: dict[Any, str] = field(default_factory=dict)

    def call(self, operator: str, inputs: Sequence[str], array: Array, **attributes: Any) -> str:
        """Adds a call of an operator; an equal earlier call serves again.

        Args:
            operator: Name of the operator.
            inputs: Names of the values that it reads.
            array: Its result for the examples.
            attributes: Settings of the operator.

        Returns:
            The name of its result.
        """
        key = operator, tuple(inputs), repr(sorted(attributes.items()))
        if key not in self._names:
            name = self._names[key] = f"v{len(self.nodes)}"
            self.nodes.append(OnnxNode(operator, tuple(inputs), name, attributes, np.asarray(array)))
        return self._names[key]

    def constant(self, array: Array) -> str:
        """Adds a known value, and returns its name."""
        key = array.dtype.str, array.shape, array.tobytes()
        if key not in self._names:
            self._names[key] = f"c{len(self.constants)}"
            self.constants[self._names[key]] = array
        return self._names[key]

    def is_batch(self, size: int) -> bool:
        """Whether a dimension is a multiple of the batch size."""
        return self.batch > 1 and size > 0 and size % self.batch == 0

    def shape(self, sizes: Sequence[int]) -> str:
        """Name of the value of a shape, in which multiples of the batch size follow the batch."""
        if not any(map(self.is_batch, sizes)):
            return self.constant(np.array(sizes, np.int64))
        name, example = next(iter(self.inputs.items()))
        whole = self.call("Shape", [name], np.array(example.shape))
        zero = self.constant(np.zeros(1, np.int64))
        rows = self.call("Gather", [whole, zero], np.array(example.shape[:1]), axis=0)
        parts = []
        for size in sizes:
            factor = self.constant(np.array([size // self.batch if self.is_batch(size) else size], np.int64))
            is_batch = self.is_batch(size)
            parts.append(self.call("Mul", [rows, factor], np.array([size])) if is_batch else factor)
        return self.call("Concat", parts, np.array(sizes), axis=0)


def needed(graph: Graph) -> tuple[list[OnnxNode], set[str]]:
    """Calls on which an output depends, in order, and the names of the values that are read."""
    used, nodes = set(graph.outputs.values()), []
    for node in reversed(graph.nodes):
        if node.output in used:
            used.update(node.inputs)
            nodes.append(node)
    return nodes[::-1], used


def read_inputs(graph: Graph) -> dict[str, Array]:
    """Examples of the observation, and of the other inputs on which an output depends."""
    _, used = needed(graph)
    first = next(iter(graph.inputs))
    return {name: array for name, array in graph.inputs.items() if name == first or name in used}


def output_arrays(graph: Graph) -> dict[str, Array]:
    """Outputs for the examples, by name."""
    arrays = {node.output: node.array for node in graph.nodes} | graph.inputs | graph.constants
    return {name: arrays[value] for name, value in graph.outputs.items()}
