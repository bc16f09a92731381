"""Dependence of a training run's rounding in C kernels on processor and BLAS: predicted from settings, and recorded."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, Any, cast

from rlrun.engine.data.tree import leaves
from rlrun.engine.kernels.library import common_key, key, library, why_no_library
from rlrun.engine.kernels.steps import LARGEST_OWN_PRODUCT
from rlrun.engine.nn.acting import ActingNetwork
from rlrun.engine.nn.kernel_network import KernelNetwork
from rlrun.engine.policy.action_masks import policy_leaves
from rlrun.engine.policy.behavior import BehaviorPolicy
from rlrun.engine.policy.recordings import LogProbsAndValues
from rlrun.engine.rollout.worker import ROLLOUT_WORKER
from rlrun.engine.training.assemble.learner_factory import may_have_kernels, runs_users_code

if TYPE_CHECKING:
    from rlrun.engine.algorithm_config import AlgorithmConfig
    from rlrun.engine.envs.spaces import Spaces
    from rlrun.engine.learner.local_learner import LocalLearner
    from rlrun.engine.training.assemble.policies import Policies
    from rlrun.engine.training.running_training import RunningTraining

ALL_PROCESSORS = "the same on all processors with fused multiply-add"


def kernels_record(running: RunningTraining, policies: Policies) -> dict[str, Any]:
    """Returns the manifest's entries about the rounding of a training run whose updates run in C kernels.

    `kernels` is a hash of everything that the kernels' rounding depends on. `depends_on_processor` is the reason why
    the hash includes processor and BLAS, or "" if it does not.
    """
    reason = dependence_on_processor(running, policies)
    return {"kernels": key() if reason else common_key(), "depends_on_processor": reason}


ACTS_IN_TORCH = "torch computes its actions"
"""Reason why the results of trainings in envs of tensors depend on the processor."""


def has_other_rounding(recorded: object) -> bool:
    """Whether the C kernels of this machine may round differently from those whose hash a checkpoint records."""
    return recorded != key() and (recorded != common_key() or not library().has_fused_products())


def dependence_on_processor(running: RunningTraining, policies: Policies) -> str:
    """Returns the reason why networks and updates of a training run depend on processor and BLAS; "" if they do not.

    There is no dependence if C kernels compute everything, and no matrix product is large enough to be left to the
    BLAS. Computations that have not run yet count as a reason, and so does users' code.

    Args:
        running: A training run whose updates run in C kernels.
        policies: Policies of the training.
    """
    if reason := _by_settings(policies):
        return reason
    if not running.workers.config.behaviors:
        return ACTS_IN_TORCH
    learners = cast("list[LocalLearner]", [trainee.learner for trainee in running.trainees])
    reasons = (learner.updates.outside_kernels for learner in learners)
    acting = (_outside_kernels(behavior) for behavior in running.workers.config.behaviors.values())
    return next((reason for reason in (*reasons, *acting) if reason), "")


def expected_dependence(policies: Policies, spaces: Mapping[str, Spaces]) -> str:
    """Returns the reason why networks and updates will depend on processor and BLAS, as far as the settings show.

    Args:
        policies: Policies of a training run that has not started.
        spaces: Observation and action space of each policy.
    """
    for algorithm in policies.algorithms.values():
        if not may_have_kernels(algorithm) or algorithm.config.compile is False:
            return "its updates do not run by C kernels"
    if why_not := why_no_library():
        return f"NumPy computes its updates: {why_not}"
    networks = (_outside_by_shape(policies.algorithms[name].config, own) for name, own in spaces.items())
    return _by_settings(policies) or next((reason for reason in networks if reason), "")


def _by_settings(policies: Policies) -> str:
    if not library().has_fused_products():
        return "this processor has no fused multiply-add"
    for algorithm in policies.algorithms.values():
        if runs_users_code(algorithm):
            return "it runs code of your own"
        if algorithm.worker_factory != ROLLOUT_WORKER:
            return "its workers compute in NumPy"
        if algorithm.config.num_learners:
            return "its learners run in other processes"
    return "its rollout workers run in other processes" if policies.sampling.num_workers else ""


def _outside_by_shape(config: AlgorithmConfig, spaces: Spaces) -> str:
    if "model" in config.refused:
        return "it has no network that C kernels run"
    encoded = leaves(policy_leaves(*spaces, config.model, normalize_observations=config.normalize_observations))
    if config.model.core == "gtrxl" or not all(leaf.is_dense for leaf in encoded):
        return "torch computes its network"
    settings = config.to_data()
    minibatch = settings.get("minibatch_size") or settings.get("train_batch_size") or 0
    rows = max(minibatch, config.num_envs_per_worker * (config.fragment_length + 1))
    widths = [sum(leaf.width for leaf in encoded), *config.model.dense_widths]
    widths += [] if config.model.core is None else [4 * config.model.core_width]
    largest = rows * max((one * other for one, other in pairwise(widths)), default=0)
    return "a product is so large that the BLAS computes it" if largest > LARGEST_OWN_PRODUCT else ""


def _outside_kernels(behavior: object) -> str:
    if not isinstance(behavior, BehaviorPolicy):
        return "an opponent acts outside the C kernels"
    for network in _networks(behavior):
        if not isinstance(network, KernelNetwork):
            return "a network that acts does not run by C kernels"
        if network.outside_kernels:
            return network.outside_kernels
    return ""


def _networks(behavior: BehaviorPolicy) -> Iterator[ActingNetwork | None]:
    """Yields the networks that a policy uses to collect experience; None for a recorder that may run other networks."""
    collector = behavior.collector
    yield collector.collecting
    if type(collector.recording) is LogProbsAndValues:
        if collector.recording.value_network is not None:
            yield collector.recording.value_network
    elif collector.recording is not None:
        yield None
