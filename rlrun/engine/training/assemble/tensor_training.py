"""Trainings in envs of tensors: their worker, and their dataflow on the device."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rlrun.engine.flow.operators import on_device
from rlrun.engine.rollout.tensor_worker import TensorWorkerConfig
from rlrun.engine.rollout.worker_config import WorkerConfig

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
        making: Factory of the policy's trainee.
    """
    (name,) = algorithms
    own = {field.name: getattr(worker, field.name) for field in dataclasses.fields(worker)}
    learner = making[name].start_learner()
    own["behaviors"] = {}  # those act in NumPy
    return TensorWorkerConfig(
        **own, policy=learner.policy, parameters=learner.parameters.flat, graphs=learner.updates.execution.graphs
    )


def put_on_device(flow: Flow[Any], env: EnvConfig, policies: Policies) -> None:
    """Replaces the operators of a dataflow with their counterparts for batches of tensors; see `on_device`."""
    shown = {"env": "tensors", "missing_final": env.missing_final}
    on_device.put_on_device(flow, policies.first.name(), shown)
