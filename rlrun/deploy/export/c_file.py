"""C code for exported policies: dependency-free C99 that takes one observation, compiled and run to verify it."""

from __future__ import annotations

import ctypes
import json
import re
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from rlrun.deploy.export.graph import Array, Graph, OnnxNode, Untraceable, needed, output_arrays, read_inputs
from rlrun.engine.kernels.library import NoLibrary, compiler
from rlrun.engine.messages.errors import UsageError

if TYPE_CHECKING:
    from rlrun.deploy.export.check import Runner
    from rlrun.deploy.export.policy_graph import PolicyGraph

C_TYPES = {
    "float32": "float",
    "float64": "double",
    "int8": "int8_t",
    "int16": "int16_t",
    "int32": "int32_t",
    "int64": "int64_t",
    "uint8": "uint8_t",
    "bool": "uint8_t",
}
"""C types by NumPy dtype."""

BINARY = {
    "Add": "{a} + {b}",
    "Sub": "{a} - {b}",
    "Mul": "{a} * {b}",
    "Div": "{a} / {b}",
    "Max": "{a} > {b} ? {a} : {b}",
    "Min": "{a} < {b} ? {a} : {b}",
    "Greater": "{a} > {b}",
    "GreaterOrEqual": "{a} >= {b}",
    "Less": "{a} < {b}",
    "LessOrEqual": "{a} <= {b}",
    "Equal": "{a} == {b}",
    "And": "{a} && {b}",
    "Or": "{a} || {b}",
    "Where": "{a} ? {b} : {c}",
}
"""C expressions for ONNX operators on two entries a and b, after broadcasting."""

UNARY = {
    "Neg": "-{a}",
    "Not": "!{a}",
    "Abs": "fabs{f}({a})",
    "Sqrt": "sqrt{f}({a})",
    "Exp": "exp{f}({a})",
    "Log": "log{f}({a})",
    "Tanh": "tanh{f}({a})",
    "Sigmoid": "1 / (1 + exp{f}(-{a}))",
    "Cast": "{a}",
    "Identity": "{a}",
}
"""C expressions for ONNX operators on one entry a."""

COMPILATION_TIMEOUT_S = 120.0


@dataclass
class _Code:
    """Lines of the function, and the arrays that they read."""

    graph: Graph
    arrays: dict[str, Array]

    def type_of(self, name: str) -> str:
        """C type of a value."""
        kind = self.arrays[name].dtype.name
        if kind not in C_TYPES:
            raise Untraceable(f"numbers of type {kind} in C")
        return C_TYPES[kind]

    def lines(self, node: OnnxNode) -> list[str]:
        """Lines that compute a call of an operator."""
        if node.operator in BINARY or node.operator in UNARY:
            return self._entries(node)
        return WRITERS[node.operator](self, node)

    def _entries(self, node: OnnxNode) -> list[str]:
        """A loop over the entries of the result; entries of smaller arrays are found by their strides."""
        names = dict(zip("abc", node.inputs, strict=False))
        expression = {**BINARY, **UNARY}[node.operator]
        places = {key: f"{name}[{self.place(name, node.array.shape)}]" for key, name in names.items()}
        if node.operator == "Cast" and node.array.dtype == np.bool_:
            expression = "{a} != 0"
        suffix = "f" if node.array.dtype == np.float32 else ""
        value = expression.format(f=suffix, **places)
        return [f"for (int i = 0; i < {node.array.size}; i++) {node.output}[i] = {value};"]

    def place(self, name: str, shape: tuple[int, ...]) -> str:
        """C expression for the index of an entry in an array, given its index `i` in the broadcast shape."""
        own = (1,) * (len(shape) - self.arrays[name].ndim) + self.arrays[name].shape
        if own == shape:
            return "i"
        if self.arrays[name].size == 1:
            return "0"
        terms, stride, own_stride = [], 1, 1
        for size, mine in zip(reversed(shape), reversed(own), strict=True):
            if mine > 1:
                terms.append(f"i / {stride} % {size} * {own_stride}")
            stride, own_stride = stride * size, own_stride * mine
        return " + ".join(terms)

    def axis(self, array: Array, axis: int) -> tuple[int, int, int]:
        """Numbers of entries before, along and after an axis."""
        shape = array.shape
        return int(np.prod(shape[:axis])), shape[axis], int(np.prod(shape[axis + 1 :]))


def _matmul(code: _Code, node: OnnxNode) -> list[str]:
    left, right = (code.arrays[name] for name in node.inputs)
    if right.ndim != 2 or node.array.size != right.shape[1]:
        raise Untraceable("a product of several matrices in C")
    a, b = node.inputs
    width = right.shape[1]
    return [
        f"for (int j = 0; j < {width}; j++) {node.output}[j] = 0;",
        f"for (int k = 0; k < {left.shape[-1]}; k++)",
        f"    for (int j = 0; j < {width}; j++) {node.output}[j] += {a}[k] * {b}[k * {width} + j];",
    ]


def _concat(code: _Code, node: OnnxNode) -> list[str]:
    before, whole, after = code.axis(node.array, node.attributes["axis"])
    lines, start = [], 0
    for name in node.inputs:
        size = code.arrays[name].shape[node.attributes["axis"]] * after
        lines.append(
            f"for (int i = 0; i < {before}; i++) for (int j = 0; j < {size}; j++) "
            f"{node.output}[i * {whole * after} + {start} + j] = {name}[i * {size} + j];"
        )
        start += size
    return lines


def _slice(code: _Code, node: OnnxNode) -> list[str]:
    source = node.inputs[0]
    start, _, axis, step = (int(code.graph.constants[name][0]) for name in node.inputs[1:])
    before, size, after = code.axis(code.arrays[source], axis)
    kept = node.array.shape[axis]
    return [
        f"for (int i = 0; i < {before}; i++) for (int k = 0; k < {kept}; k++) for (int j = 0; j < {after}; j++) "
        f"{node.output}[(i * {kept} + k) * {after} + j] = "
        f"{source}[(i * {size} + {start} + k * {step}) * {after} + j];"
    ]


def _expand(code: _Code, node: OnnxNode) -> list[str]:
    source = node.inputs[0]
    place = code.place(source, node.array.shape)
    return [f"for (int i = 0; i < {node.array.size}; i++) {node.output}[i] = {source}[{place}];"]


def _reduced(first: str, step: str, last: str = "") -> Callable[[_Code, OnnxNode], list[str]]:
    """Creates the writer of a loop along an axis, from C code for the first value, for a step, and for the end."""

    def lines(code: _Code, node: OnnxNode) -> list[str]:
        source = node.inputs[0]
        attributes = node.attributes
        axis = int(code.graph.constants[node.inputs[1]][0]) if len(node.inputs) > 1 else attributes["axes"][0]
        before, size, after = code.axis(code.arrays[source], axis)
        names = {"x": f"{source}[(i * {size} + k) * {after} + j]", "to": f"{node.output}[i * {after} + j]", "n": size}
        names["zero"] = f"{source}[i * {size} * {after} + j]"
        end = f" {last.format(**names)}" if last else ""
        return [
            f"for (int i = 0; i < {before}; i++) for (int j = 0; j < {after}; j++) {{",
            f"    {first.format(**names)}",
            f"    for (int k = 0; k < {size}; k++) {step.format(**names)}{end and ';'}",
            *([f"   {end}"] if end else []),
            "}",
        ]

    return lines


def _argmax(code: _Code, node: OnnxNode) -> list[str]:
    source = node.inputs[0]
    before, size, after = code.axis(code.arrays[source], node.attributes["axis"])
    at = f"{source}[(i * {size} + %s) * {after} + j]"
    return [
        f"for (int i = 0; i < {before}; i++) for (int j = 0; j < {after}; j++) {{",
        "    int best = 0;",
        f"    for (int k = 1; k < {size}; k++) if ({at % 'k'} > {at % 'best'}) best = k;",
        f"    {node.output}[i * {after} + j] = best;",
        "}",
    ]


def _scatter(code: _Code, node: OnnxNode) -> list[str]:
    source, indices, updates = node.inputs
    before, size, after = code.axis(node.array, node.attributes["axis"])
    number = code.arrays[indices].shape[node.attributes["axis"]]
    place = f"(i * {number} + k) * {after} + j"
    return [
        f"for (int i = 0; i < {node.array.size}; i++) {node.output}[i] = {source}[i];",
        f"for (int i = 0; i < {before}; i++) for (int k = 0; k < {number}; k++) for (int j = 0; j < {after}; j++) "
        f"{node.output}[(i * {size} + {indices}[{place}]) * {after} + j] = {updates}[{place}];",
    ]


def _reshape(code: _Code, node: OnnxNode) -> list[str]:
    return [f"for (int i = 0; i < {node.array.size}; i++) {node.output}[i] = {node.inputs[0]}[i];"]


WRITERS: dict[str, Callable[[_Code, OnnxNode], list[str]]] = {
    "MatMul": _matmul,
    "Concat": _concat,
    "Slice": _slice,
    "Expand": _expand,
    "Reshape": _reshape,
    "ReduceSum": _reduced("{to} = 0;", "{to} += {x};"),
    "ReduceMean": _reduced("{to} = 0;", "{to} += {x}", "{to} /= {n};"),
    "ReduceMax": _reduced("{to} = {zero};", "if ({x} > {to}) {to} = {x};"),
    "ArgMax": _argmax,
    "ScatterElements": _scatter,
}
"""Functions that write the C code of all other ONNX operators, which are not computed entry by entry."""


def c_source(policy: PolicyGraph, metadata: Mapping[str, str]) -> str:
    """Converts a policy's graph of ONNX operators to C code, whose function `policy_act` takes one observation.

    Args:
        policy: The graph.
        metadata: Entries of the comment at the top of the file.

    Raises:
        Untraceable: The graph has an operator without a C implementation.
    """
    graph = policy.graph
    nodes, _ = needed(graph)
    if unwritten := sorted({node.operator for node in nodes} - {*BINARY, *UNARY, *WRITERS}):
        raise Untraceable(f"ONNX operators that C files do not support ({', '.join(unwritten)}): use --to onnx")
    arrays = {node.output: node.array for node in graph.nodes} | graph.constants | graph.inputs
    code = _Code(graph, arrays)
    steps = [line for node in nodes for line in code.lines(node)]
    read = set(re.findall(r"\w+", "\n".join(steps))).union(graph.outputs.values())
    names = _identifiers(graph)
    # In C, a backslash at the end of a line joins the next line, even in comments. If a line began with a value's text,
    # the value could thus close the comment.
    notes = [f" * {key}: {' '.join(value.splitlines())}" for key, value in metadata.items()]
    comment = "\n".join(line.replace("*/", "* /") for line in notes)
    constants = [
        f"static const {code.type_of(name)} {name}[{array.size}] = {{{_numbers(array)}}};"
        for name, array in graph.constants.items()
        if name in read
    ]
    parameters = [
        f"const {code.type_of(name)} {names[name]}[{array.size}]" for name, array in read_inputs(graph).items()
    ] + [f"{C_TYPES[array.dtype.name]} {names[name]}[{array.size}]" for name, array in output_arrays(graph).items()]
    body = [f"{code.type_of(node.output)} {node.output}[{max(1, node.array.size)}];" for node in nodes]
    body += [_renamed(line, names) for line in steps]
    body += [
        f"for (int i = 0; i < {array.size}; i++) {names[name]}[i] = {names.get(value, value)}[i];"
        for (name, array), value in zip(output_arrays(graph).items(), graph.outputs.values(), strict=True)
    ]
    return SOURCE.format(
        comment=comment,
        constants="\n".join(constants),
        parameters=",\n                ".join(parameters),
        body="\n".join(f"    {line}" for line in body),
    )


SOURCE = """\
/* Policy exported by rlrun. Arrays are those of one observation, in row-major order.
{comment}
 */
#include <math.h>
#include <stdint.h>

{constants}

void policy_act({parameters})
{{
{body}
}}
"""


def c_runner(source: bytes, policy: PolicyGraph) -> Runner:
    """Compiles the C code of a policy, and returns a function that calls it for each observation of a batch.

    Raises:
        UsageError: There is no C compiler, or the compilation fails.
    """
    with tempfile.TemporaryDirectory() as folder:
        file, library = Path(folder) / "policy.c", Path(folder) / "policy.so"
        file.write_bytes(source)
        try:
            command = [compiler(), "-std=c99", "-O2", "-ffp-contract=off", "-shared", "-fPIC", str(file)]
        except NoLibrary as error:
            raise UsageError(f"a C file must be compiled to compare it with the policy, but {error}") from None
        done = subprocess.run(
            [*command, "-o", str(library), "-lm"],
            capture_output=True,
            text=True,
            timeout=COMPILATION_TIMEOUT_S,
            check=False,
        )
        if done.returncode:
            raise UsageError(f"the C compiler rejected the file: {(done.stderr.splitlines() or [''])[0]}")
        act = ctypes.CDLL(str(library)).policy_act
    inputs, outputs = read_inputs(policy.graph), output_arrays(policy.graph)

    def run(given: Mapping[str, Array]) -> dict[str, Array]:
        rows = len(next(iter(given.values())))
        found = {name: np.empty((rows, *array.shape[1:]), array.dtype) for name, array in outputs.items()}
        for row in range(rows):
            own = [np.ascontiguousarray(given[name][row]) for name in inputs]
            arguments = [*own, *(array[row : row + 1] for array in found.values())]
            act(*(ctypes.c_void_p(array.ctypes.data) for array in arguments))
        return found

    return run


def _identifiers(graph: Graph) -> dict[str, str]:
    """Names of inputs and outputs that are allowed in C."""
    return {name: "".join(each if each.isalnum() else "_" for each in name) for name in (*graph.inputs, *graph.outputs)}


def _renamed(line: str, names: Mapping[str, str]) -> str:
    for name, own in names.items():
        if name != own:
            line = line.replace(f"{name}[", f"{own}[")
    return line


def _numbers(array: Array) -> str:
    if np.issubdtype(array.dtype, np.floating):
        suffix = "f" if array.dtype == np.float32 else ""
        return ", ".join(_real(float(number), array, suffix) for number in array.ravel())
    return ", ".join(str(int(number)) for number in array.ravel())


def _real(number: float, array: Array, suffix: str) -> str:
    if np.isnan(number):
        return "NAN"
    if np.isinf(number):
        return "INFINITY" if number > 0 else "-INFINITY"
    text = json.dumps(float(str(array.dtype.type(number))))
    return f"{text}{suffix}" if any(mark in text for mark in ".e") else f"{text}.0{suffix}"
