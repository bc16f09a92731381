"""Trainings in envs of tensors: what they support, their worker, and their dataflow on the device."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rlrun.engine.flow.operators import on_device
from rlrun.engine.learner.device import available_device
from rlrun.engine.messages.errors import UsageError
from rlrun.engine.rollout.tensor_worker import TensorWorkerConfig
from rlrun.engine.rollout.worker import ROLLOUT_WORKER
from rlrun.engine.rollout.worker_config import WorkerConfig

if TYPE_CHECKING:
    from rlrun.engine.algorithm import Algorithm
    from rlrun.engine.envs.env_config import EnvConfig
    from rlrun.engine.flow.flow import Flow
    from rlrun.engine.training.assemble.policies import Policies


def refuse_misfits(env: EnvConfig, policies: Policies, *, records: bool, has_hooks: bool) -> None:
    """Validates that a training's settings work with an env of tensors.

    Args:
        env: The env.
        policies: The policies with their settings.
        records: Whether the run writes its steps to a data set.
        has_hooks: Whether the run has hooks.

    Raises:
        UsageError: A setting, or the algorithm, needs experience on the host.
    """
    config, algorithm = policies.sampling, policies.first
    if algorithm.worker_factory != ROLLOUT_WORKER:
        raise UsageError(f"an env of tensors does not work with {algorithm.name()}: use ppo, a2c or grpo")
    model = config.model
    refused = {
        "config.num_workers": config.num_workers > 0,
        "config.num_learners": config.num_learners > 0,
        "config.curiosity or config.constraint": bool(config.value_heads) or bool(config.env_columns),
        "config.before_learning": bool(config.before_learning),
        "config.model.views": model.views.any,
        "config.model.use_sde": model.use_sde,
        "output": records,
        "hooks": has_hooks,
    }
    if found := [name for name, is_set in refused.items() if is_set]:
        raise UsageError(
            f"env {env.id}: an env of tensors keeps experience on the device, in the trial's process, and does not "
            f"work with {', '.join(found)}; leave out"
            f" {'it' if len(found) == 1 else 'them'}"
        )


def tensor_worker(
    worker: WorkerConfig, algorithms: Mapping[str, Algorithm[Any]], making: Mapping[str, Any]
) -> TensorWorkerConfig:
    """Returns the settings of the worker that steps the env on the learner's device, with the learner's policy.

    Args:
        worker: Settings of the worker.
        algorithms: The only policy's algorithm, by the policy's name.
        making: Its trainee's factory.
    """
    ((name, algorithm),) = algorithms.items()
    own = {field.name: getattr(worker, field.name) for field in dataclasses.fields(worker)}
    policy = making[name].start_learner().policy
    own["behaviors"] = {}  # those act in NumPy
    return TensorWorkerConfig(**own, policy=policy, device=available_device(algorithm.config.num_gpus))


def put_on_device(flow: Flow[Any], env: EnvConfig, policies: Policies) -> None:
    """Replaces the operators of a dataflow by their forms for batches of tensors; see `on_device`."""
    shown = {"env": "tensors", "missing_final": env.missing_final}
    on_device.put_on_device(flow, policies.first.name(), shown)
