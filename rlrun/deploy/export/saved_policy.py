"""Export of a saved policy: records it as a graph, writes a file, and compares the file with the original policy."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from rlrun.deploy.export.check import ExportDiffers, ObservationStream, OutputComparison, Runner, compare
from rlrun.deploy.export.graph import Array, Untraceable, output_arrays, read_inputs
from rlrun.deploy.export.policy_graph import PolicyGraph, policy_graph
from rlrun.engine.checkpoint.format import SPEC_FILE
from rlrun.engine.checkpoint.manifest import rlrun_version
from rlrun.engine.data.action_kind import ActionKind
from rlrun.engine.data.space_json import space_to_json
from rlrun.engine.data.space_kinds import kind_of, space_tree
from rlrun.engine.data.tree import leaves
from rlrun.engine.messages.errors import UsageError
from rlrun.engine.policy.behavior import BehaviorPolicy

if TYPE_CHECKING:
    from rlrun.engine.envs.spaces import Spaces
    from rlrun.engine.policy.policy import Policy
    from rlrun.engine.training.act.privileged_parts import PrivilegedParts
    from rlrun.engine.training.training import Training

Format = Literal["onnx", "c"]

ACTS_OTHERWISE = ("actions", "chosen", "sampled", "outputs")
"""Methods of a behavior policy that choose actions; a policy that overrides one cannot be exported."""


@dataclass(frozen=True)
class Export:
    """Exported policy: file content, graph and result of the comparison.

    Attributes:
        content: Content of the file.
        policy: Graph from which the file was written.
        comparison: Result of the comparison with the original policy.
    """

    content: bytes
    policy: PolicyGraph
    comparison: OutputComparison

    @property
    def inputs(self) -> dict[str, Array]:
        """Example inputs with which the policy was run to record its graph, as arrays by name."""
        return read_inputs(self.policy.graph)

    @property
    def outputs(self) -> dict[str, Array]:
        """Outputs of the policy for the example inputs with which its graph was recorded, as arrays by name."""
        return output_arrays(self.policy.graph)


def export(
    training: Training,
    name: str,
    observations: Callable[[], ObservationStream],
    metadata: dict[str, str],
    *,
    to: Format,
    actions: ActionKind,
    seed: int,
) -> Export:
    """Exports a policy of a training run, and verifies the file against the policy.

    Args:
        training: The training run.
        name: Name of the policy; "" for the first one.
        observations: Function that creates the observations for the comparison, called only if the policy can be
            exported.
        metadata: Metadata to store in the file.
        to: Kind of file to write, "onnx" or "c".
        actions: Whether the file's actions are greedy or sampled; sampling takes noise as an additional input.
        seed: Seed of the noise in the comparison.

    Raises:
        UsageError: The policy cannot be exported.
        ExportDiffers: The exported policy acts differently from the original.
    """
    acting = training.acting.policy(name)
    trainee, behavior = acting.trainee, acting.behavior()
    found = f"policy {trainee.name}"
    try:
        recorded = recorded_policy(trainee.policy, behavior, trainee.spaces, acting.privileged, to=to, actions=actions)
        content, runner = WRITERS[to](recorded, metadata)
    except Untraceable as error:
        raise UsageError(f"{found} cannot be exported, because it uses {error}") from error
    try:
        return Export(content, recorded, compare(behavior, recorded, runner, observations(), seed=seed))
    except ExportDiffers as error:
        raise ExportDiffers(f"{found} was not exported, because the file would act differently: {error}") from None


def recorded_policy(
    policy: Policy,
    behavior: BehaviorPolicy,
    spaces: Spaces,
    privileged: PrivilegedParts,
    *,
    to: Format,
    actions: ActionKind,
) -> PolicyGraph:
    """Records a policy's step, from observations to actions, as a graph of ONNX operators.

    Raises:
        Untraceable: The policy plans its actions, uses custom code, or does something that a graph cannot represent.
    """
    kind = type(behavior)
    if kind.search is not BehaviorPolicy.search:
        raise Untraceable("tree search")
    if any(getattr(kind, method) is not getattr(BehaviorPolicy, method) for method in ACTS_OTHERWISE):
        raise Untraceable(f"custom code for choosing actions ({kind.__name__})")
    scores = _scores(policy, spaces)
    return policy_graph(behavior, spaces, privileged, actions=actions, scores=scores, any_batch=to != "c")


def _scores(policy: Policy, spaces: Spaces) -> str:
    """Name of the network's outputs in the file, such as logits or action values."""
    if policy.estimates == "action_values":
        return "action_values"
    kinds = [kind_of(part) for part in leaves(space_tree(spaces.action))]
    return "outputs" if any(kind is None or kind.meaning == "numbers" for kind in kinds) else "logits"


def metadata_of(training: Training, name: str, checkpoint: Path, actions: ActionKind) -> dict[str, str]:
    """Metadata of an exported policy: origin, spaces and training state, each as text or JSON."""
    trainee = training.acting.policy(name).trainee
    algorithm = training.description.policies.algorithms[trainee.name]
    return {
        "rlrun_version": rlrun_version(),
        "algorithm": algorithm.name(),
        "policy": trainee.name,
        "env": training.description.env.id,
        "env_steps": str(trainee.clock.env_steps),
        "spec_sha256": hashlib.sha256((checkpoint / SPEC_FILE).read_bytes()).hexdigest(),
        "observation_space": json.dumps(space_to_json(trainee.spaces.observation)),
        "action_space": json.dumps(space_to_json(trainee.spaces.action)),
        "actions": actions,
    }


def _as_onnx(policy: PolicyGraph, metadata: dict[str, str]) -> tuple[bytes, Runner]:
    from rlrun.deploy.export.onnx_file import onnx_model, onnx_runner

    inputs: dict[str, Any] = {"memory": json.dumps(policy.memory), "noise": json.dumps(dict(policy.noise))}
    model = onnx_model(policy.graph, metadata | inputs)
    return model, onnx_runner(model, policy.graph.outputs)


def _as_c(policy: PolicyGraph, metadata: dict[str, str]) -> tuple[bytes, Runner]:
    from rlrun.deploy.export.c_file import c_runner, c_source

    source = c_source(policy, metadata).encode()
    return source, c_runner(source, policy)


WRITERS: dict[Format, Callable[[PolicyGraph, dict[str, str]], tuple[bytes, Runner]]] = {"onnx": _as_onnx, "c": _as_c}
"""Functions by file type that convert a policy's graph to the content of a file and a function that runs it."""
