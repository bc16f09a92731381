"""Dataflow of several policies that learn from shared rollout workers, or in turn from data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from rlrun.engine.flow.concurrently import concurrently
from rlrun.engine.flow.flow import Flow, learns
from rlrun.engine.flow.operators.world_fragments import JoinFragments, SelectPolicy
from rlrun.engine.messages.errors import UsageError
from rlrun.engine.training.assemble.learning import learning, learning_alone
from rlrun.engine.training.branch import Branch

if TYPE_CHECKING:
    from rlrun.engine.algorithm import Algorithm
    from rlrun.engine.flow.sources.rollouts import RolloutMode
    from rlrun.engine.flow.trainee import Trainee


def learning_together(
    algorithms: Mapping[str, Algorithm[Any]],
    trainees: Mapping[str, Trainee],
    trained: tuple[str, ...],
    length: int,
) -> tuple[dict[str, Branch], Flow[Any]]:
    """Builds the dataflow of each policy, and a joint dataflow in which all learn from the same rollout workers.

    The policies learn from copies of one stream of joint rollouts. No policy is ahead of another by more than one
    fragment, so that each learns from recent fragments.
    """
    branches = {policy: Branch(trainee, None) for policy, trainee in trainees.items()}
    operators = {policy: _shared_worker_operators(algorithms[policy], trainees[policy]) for policy in trained}
    mode = _common_mode({policy: algorithms[policy] for policy in trained})
    first, *others = (trainees[policy].workers for policy in trained)
    source = first.joint_rollouts(others, [operators[policy] for policy in trained], mode)
    copies = source.duplicate(len(trained), lead=1)
    flows = []
    for policy, copy in zip(trained, copies, strict=True):
        algorithm, trainee = algorithms[policy], trainees[policy]
        fragments: Flow[Any] = copy.for_each(SelectPolicy(policy))
        if trainee.fragment_length > length:
            join = JoinFragments(trainee.fragment_length // length, normalized=algorithm.config.normalize_observations)
            fragments = fragments.zip_with_worker().combine(join)
        learned = learning(algorithm, fragments, trainee)
        branches[policy] = Branch(trainee, learned, shared=copies)
        flows.append(learned)
    return branches, concurrently(*flows)


def learning_in_turn(
    algorithms: Mapping[str, Algorithm[Any]], trainees: Mapping[str, Trainee], trained: tuple[str, ...]
) -> tuple[dict[str, Branch], Flow[Any]]:
    """Builds a dataflow for each policy with its own source, such as data sets, and lets the policies learn in turn.

    The first policy comes last in each round, so that all policies have learned equally often after its turn.
    """
    flows = {policy: learning_alone(algorithms[policy], trainees[policy]) for policy in trained}
    branches = {policy: Branch(trainee, flows.get(policy)) for policy, trainee in trainees.items()}
    first, *others = flows.values()
    return branches, concurrently(*others, first)


def _shared_worker_operators(algorithm: Algorithm[Any], trainee: Trainee) -> list[Callable[[Any], Any]]:
    """Returns the algorithm's operators that run on shared rollout workers.

    Raises:
        UsageError: The algorithm learns on workers, or has a collection setting that several policies cannot share.
    """
    config = algorithm.config
    for name in algorithm.collect_settings:
        if getattr(config, name) != type(config).model_fields[name].default:
            raise UsageError(
                f"policies.{trainee.name}.config.{name}: the policies that learn in a world share one stream "
                "of fragments, so this cannot be set for a single policy; remove it"
            )
    operators = list(algorithm.on_worker(trainee))
    if any(learns(operator) for operator in operators):
        raise UsageError(
            f"policy {trainee.name}: {algorithm.name()} computes gradients on the rollout workers, which is "
            "not possible if several policies learn in one world: choose an algorithm that learns in the "
            "trial's process, such as ppo"
        )
    return operators


def _common_mode(algorithms: Mapping[str, Algorithm[Any]]) -> RolloutMode:
    """Returns the collection mode (synchronous or asynchronous) required by all algorithms of a multi-agent world.

    Raises:
        UsageError: The algorithms require different modes.
    """
    modes = {policy: algorithm.mode for policy, algorithm in algorithms.items()}
    (first, mode), *others = modes.items()
    for policy, other in others:
        if other != mode:
            raise UsageError(
                f"policy {first} ({algorithms[first].name()}) collects {_MODES[mode]} and policy {policy} "
                f"({algorithms[policy].name()}) {_MODES[other]}, but they share their workers: choose algorithms that "
                "collect in the same way, or set `asynchronous` of ppo"
            )
    return mode


_MODES = {"sync": "in rounds", "async": "without waiting for all workers"}
