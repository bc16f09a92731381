"""Graph of ONNX operators that computes a policy's step; ONNX and C files are written from it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


class Untraceable(Exception):
    """Error: a policy does something that an exported graph cannot represent; the message describes it."""


@dataclass(frozen=True)
class OnnxNode:
    """Call of an ONNX operator.

    Attributes:
        operator: Name of the operator.
        inputs: Names of the values that it reads.
        output: Name of the value that it computes.
        attributes: Attributes of the operator.
        array: Output computed from the example inputs of the recording, [B, ...].
    """

    operator: str
    inputs: tuple[str, ...]
    output: str
    attributes: dict[str, Any]
    array: Array


@dataclass
class Graph:
    """Graph of operators in execution order, recorded while a policy runs on example inputs.

    The example inputs have `batch` rows: a dimension divisible by `batch` scales with the batch size.

    Attributes:
        batch: B, number of rows of the example inputs, chosen to divide no other dimension.
        functions: Functions that record calls of NumPy functions, and the reading and writing of parts of arrays.
        nodes: Operator calls.
        constants: Constant values by name.
        inputs: Example inputs by name.
        outputs: Value name of each output.
    """

    batch: int
    functions: Mapping[Callable[..., Any], Callable[..., Any]]
    nodes: list[OnnxNode] = field(default_factory=list)
    constants: dict[str, Array] = field(default_factory=dict)
    inputs: dict[str, Array] = field(default_factory=dict)
    outputs: dict[str, str] = field(default_factory=dict)
    _names: dict[Any, str] = field(default_factory=dict)

    def call(self, operator: str, inputs: Sequence[str], array: Array, **attributes: Any) -> str:
        """Adds an operator call; an equal earlier call is reused.

        Args:
            operator: Name of the operator.
            inputs: Names of the values that it reads.
            array: Result for the example inputs.
            attributes: Attributes of the ONNX operator, such as an axis.

        Returns:
            Name of the result's value.
        """
        key = operator, tuple(inputs), repr(sorted(attributes.items()))
        if key not in self._names:
            name = self._names[key] = f"v{len(self.nodes)}"
            self.nodes.append(OnnxNode(operator, tuple(inputs), name, attributes, np.asarray(array)))
        return self._names[key]

    def constant(self, array: Array) -> str:
        """Adds a constant array to the graph, and returns its name."""
        key = array.dtype.str, array.shape, array.tobytes()
        if key not in self._names:
            self._names[key] = f"c{len(self.constants)}"
            self.constants[self._names[key]] = array
        return self._names[key]

    def is_batch(self, size: int) -> bool:
        """Whether an array's dimension of the given size scales with the batch size."""
        return self.batch > 1 and size > 0 and size % self.batch == 0

    def shape(self, sizes: Sequence[int]) -> str:
        """Adds the shape operand of a reshape and returns its name; batch dimensions follow the actual batch size."""
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
    """Operator calls that a graph's outputs depend on, in execution order, and the names of all values involved."""
    used, nodes = set(graph.outputs.values()), []
    for node in reversed(graph.nodes):
        if node.output in used:
            used.update(node.inputs)
            nodes.append(node)
    return nodes[::-1], used


def read_inputs(graph: Graph) -> dict[str, Array]:
    """Example inputs on which a graph's outputs depend, as arrays by name; the first input is always included."""
    _, used = needed(graph)
    first = next(iter(graph.inputs))
    return {name: array for name, array in graph.inputs.items() if name == first or name in used}


def output_arrays(graph: Graph) -> dict[str, Array]:
    """Values of a graph's outputs for the example inputs of the recording, as arrays by name."""
    arrays = {node.output: node.array for node in graph.nodes} | graph.inputs | graph.constants
    return {name: arrays[value] for name, value in graph.outputs.items()}
