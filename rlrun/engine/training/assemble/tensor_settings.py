"""Validation of the settings of a training run in an env of tensors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rlrun.engine.hook import worker_hooks
from rlrun.engine.messages.errors import UsageError
from rlrun.engine.rollout.worker import ROLLOUT_WORKER

if TYPE_CHECKING:
    from rlrun.engine.envs.env_config import EnvConfig
    from rlrun.engine.training.assemble.policies import Policies


def refuse_misfits(
    env: EnvConfig, policies: Policies, *, records: bool, hooks: Sequence[Mapping[str, Mapping[str, Any]]]
) -> None:
    """Validates that a training run's settings work with an env of tensors.

    Args:
        env: The env.
        policies: The policies with their settings.
        records: Whether the run writes its steps to a data set.
        hooks: Settings of each hook by its import path.

    Raises:
        UsageError: A setting, or the algorithm, needs experience in the host's memory.
    """
    config, algorithm = policies.sampling, policies.first
    if algorithm.worker_factory != ROLLOUT_WORKER:
        raise UsageError(f"{algorithm.name()} does not work with an env of tensors: use ppo, a2c, grpo or rloo")
    model = config.model
    refused = {
        "config.num_workers": config.num_workers > 0,
        "config.num_learners": config.num_learners > 0,
        "config.curiosity or config.constraint": bool(config.value_heads) or bool(config.env_columns),
        "config.before_learning": bool(config.before_learning),
        "config.model.views": model.views.any,
        "config.model.use_sde": model.use_sde,
        "config.model.core: gtrxl": model.core == "gtrxl",
        "config.model.autoregressive": bool(model.autoregressive),
        "config.model.action_embeddings": model.action_embeddings is not None,
        "output": records,
        "hooks of rollout workers": bool(hooks and worker_hooks(hooks)),
    }
    if found := [name for name, is_set in refused.items() if is_set]:
        raise UsageError(
            f"env {env.id}: an env of tensors keeps experience on the device, in the trial's process, and does not "
            f"work with {', '.join(found)}; leave {'it' if len(found) == 1 else 'them'} out"
        )
