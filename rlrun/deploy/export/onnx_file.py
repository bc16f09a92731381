"""ONNX model files, written from graphs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from rlrun.deploy.export.check import Runner
from rlrun.deploy.export.graph import Array, Graph, OnnxNode, needed, output_arrays, read_inputs
from rlrun.engine.messages.errors import UsageError

OPSET = 17
"""Version of ONNX's operators."""

IR_VERSION = 8
"""Version of ONNX's file format released with this operator set, so that runtimes from 2022 can read the file."""

BATCH = "batch"


def onnx_model(graph: Graph, metadata: Mapping[str, str]) -> bytes:
    """Converts a graph to an ONNX model.

    Args:
        graph: The graph.
        metadata: Key-value pairs to store in the model's `metadata_props`.
    """
    onnx = _imported("onnx")
    helper = onnx.helper

    def declared(name: str, array: Array) -> Any:
        kind = helper.np_dtype_to_tensor_dtype(array.dtype)
        return helper.make_tensor_value_info(name, kind, [BATCH, *array.shape[1:]])

    nodes, used = needed(graph)
    made = [_node(onnx, node) for node in nodes]
    # Gives the file's outputs their own names.
    made += [helper.make_node("Identity", [value], [name]) for name, value in graph.outputs.items()]
    model = helper.make_model(
        helper.make_graph(
            made,
            "policy",
            [declared(name, array) for name, array in read_inputs(graph).items()],
            [declared(name, array) for name, array in output_arrays(graph).items()],
            [onnx.numpy_helper.from_array(array, name) for name, array in graph.constants.items() if name in used],
        ),
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
        producer_name="rlrun",
    )
    helper.set_model_props(model, dict(metadata))
    onnx.checker.check_model(model, full_check=True)
    written: bytes = model.SerializeToString()
    return written


def _node(onnx: Any, node: OnnxNode) -> Any:
    settings = dict(node.attributes)
    if node.operator == "Cast":
        settings["to"] = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(settings["to"]))
    return onnx.helper.make_node(node.operator, list(node.inputs), [node.output], **settings)


def onnx_runner(model: bytes, outputs: Iterable[str]) -> Runner:
    """Creates a function that runs an ONNX model with onnxruntime on one thread.

    Args:
        model: Content of the model file.
        outputs: Names of the outputs that the function returns.
    """
    runtime = _imported("onnxruntime")
    options = runtime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    session = runtime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    names = list(outputs)
    read = {each.name for each in session.get_inputs()}

    def run(inputs: Mapping[str, Array]) -> dict[str, Array]:
        found = session.run(names, {name: array for name, array in inputs.items() if name in read})
        return dict(zip(names, found, strict=True))

    return run


def _imported(name: str) -> Any:
    import importlib

    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise UsageError(f"ONNX files need {name}, which is not installed: pip install 'rlrun[export]'") from error
