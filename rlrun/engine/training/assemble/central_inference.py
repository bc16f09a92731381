"""Policies with an inference server: their networks move to the server, and rollout workers keep the rest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlrun.engine.messages.errors import UsageError
from rlrun.engine.policy.behavior import BehaviorPolicy
from rlrun.engine.rollout.inference.network import ServedNetwork
from rlrun.engine.rollout.inference.server import NetworkKey, innermost
from rlrun.engine.rollout.inference.server_actor import ServedPolicies
from rlrun.engine.rollout.worker import ROLLOUT_WORKER

if TYPE_CHECKING:
    from rlrun.engine.algorithm_config import InferenceConfig
    from rlrun.engine.envs.env_config import EnvConfig
    from rlrun.engine.nn.acting import ActingNetwork
    from rlrun.engine.rollout.worker_behavior import WorkerBehavior
    from rlrun.engine.training.assemble.policies import Policies

_SETTING = "config.inference.at: trial"


def served_policies(
    env: EnvConfig,
    policies: Policies,
    behaviors: Mapping[str, WorkerBehavior],
    output: Path | None,
    hooks: Sequence[Any],
) -> ServedPolicies:
    """Moves the networks of behavior policies to an inference server.

    Args:
        env: The environment, or the multi-agent world.
        policies: The policies.
        behaviors: Behavior policies by name, changed in place; empty for a plan.
        output: Folder to which the collected steps are written as a data set; None to write none.
        hooks: Settings of each hook that is called on workers.

    Returns:
        The networks, and the settings of the server.

    Raises:
        UsageError: The training has a part that does not work with an inference server.
    """
    inference = policies.sampling.inference
    _refuse_misfits(inference, env, policies, has_output=output is not None, has_hooks=bool(hooks))
    networks: dict[str, list[ActingNetwork]] = {}
    for policy, behavior in behaviors.items():
        if type(behavior) is not BehaviorPolicy or behavior.collector.parameter_noise is not None:
            raise UsageError(
                f"{_SETTING} serves policies whose actions follow from one network; policy {policy} acts by "
                f"{'parameter noise' if isinstance(behavior, BehaviorPolicy) else type(behavior).__name__}. "
                "Set inference.at to worker"
            )
        own = networks[policy] = []
        behavior.collector.collect_by(partial(_at_server, policy, own))
        behavior.network = behavior.collector.network = behavior.collector.collecting
        if inference.num_gpus and not _run_in_torch(own):
            raise UsageError(
                f"config.inference.num_gpus: the network of policy {policy} acts in NumPy, which does not run on a "
                "GPU; only networks with image encoders, attention or custom modules act in torch. Set it to 0"
            )
    return ServedPolicies(
        networks,
        groups=inference.groups,
        max_batch=inference.max_batch,
        num_cpus=policies.sampling.cpus_of_server,
        num_gpus=inference.num_gpus,
    )


def _at_server(policy: str, networks: list[ActingNetwork], network: ActingNetwork) -> ServedNetwork:
    """Adds a network to the server's; returns its replacement in the workers."""
    networks.append(network)
    return ServedNetwork(NetworkKey(policy, len(networks) - 1), network.state_size)


def _run_in_torch(networks: Sequence[ActingNetwork]) -> bool:
    from rlrun.engine.nn.torch_network import TorchActingNetwork

    return all(isinstance(innermost(network), TorchActingNetwork) for network in networks)


def _refuse_misfits(
    inference: InferenceConfig, env: EnvConfig, policies: Policies, *, has_output: bool, has_hooks: bool
) -> None:
    for policy, algorithm in policies.algorithms.items():
        if algorithm.worker_factory != ROLLOUT_WORKER or algorithm.config.episodes_per_seed > 1:
            raise UsageError(f"{_SETTING} does not work with {algorithm.name()} (policy {policy}); set it to worker")
    for what, is_there in {
        "seats": bool(policies.seats),
        "env.external": env.external is not None,
        "env.curriculum": env.curriculum is not None,
        "env.tensors": env.tensors is not None,
    }.items():
        if is_there:
            raise UsageError(f"{_SETTING} does not work with {what}; set it to worker")
    for what, is_there in {
        "output": has_output,
        "hooks": has_hooks,
        "an env that steps all of its slots together": env.fixed_num_envs is not None,
    }.items():
        if is_there and inference.groups > 1:
            raise UsageError(f"config.inference.groups: {what} needs one group of envs per worker; set it to 1")
