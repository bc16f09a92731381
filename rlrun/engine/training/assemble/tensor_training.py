"""Training in tensor envs: the worker, and the dataflow on the device."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rlrun.engine.flow.operators import on_device
from rlrun.engine.messages.errors import UsageError
from rlrun.engine.policy.policy import Policy
from rlrun.engine.rollout.tensor_worker import TensorWorkerConfig
from rlrun.engine.rollout.worker_config import WorkerConfig
from rlrun.engine.settings.registry import load_internal

if TYPE_CHECKING:
    from rlrun.engine.algorithm import Algorithm
    from rlrun.engine.envs.env_config import EnvConfig
    from rlrun.engine.flow.flow import Flow
    from rlrun.engine.training.assemble.policies import Policies


def tensor_worker(
    worker: WorkerConfig, algorithms: Mapping[str, Algorithm[Any]], making: Mapping[str, Any]
) -> TensorWorkerConfig:
    """Returns the settings of the worker that steps the env on the learner's device, with the learner's parameters.

    Args:
        worker: Settings of the worker.
        algorithms: The only policy's algorithm, by the policy's name.
        making: Factory of the policy's trainee, by the policy's name.
    """
    (name,) = algorithms
    own = {field.name: getattr(worker, field.name) for field in dataclasses.fields(worker)}
    learner = making[name].start_learner()
    own["behaviors"] = {}  # behaviors act in NumPy
    return TensorWorkerConfig(
        **own, policy=learner.policy, parameters=learner.parameters.flat, graphs=learner.updates.execution.graphs
    )


def put_on_device(flow: Flow[Any], env: EnvConfig, policies: Policies) -> None:
    """Replaces the operators of a dataflow with their counterparts for batches of tensors; see `on_device`.

    Raises:
        UsageError: An operator has no counterpart, or the policy cannot act on a device.
    """
    algorithm = policies.first
    family = load_internal(algorithm.policy_family, "policy family")
    if not (isinstance(family, type) and issubclass(family, Policy) and family.acts_on_device):
        raise UsageError(
            f"{algorithm.name()} does not work with an env of tensors, because its policy, a {family.__name__}, acts "
            f"on the host: use {on_device.LEARN_ON_DEVICE}"
        )
    shown = {"env": "tensors", "missing_final": env.missing_final}
    on_device.put_on_device(flow, algorithm.name(), shown)
