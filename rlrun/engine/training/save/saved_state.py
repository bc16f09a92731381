"""Saving and restoring the state of a running training."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any

from rlrun.engine.checkpoint.format import Content
from rlrun.engine.envs.spaces import empty_batch
from rlrun.engine.functional.saved_numbers import as_count
from rlrun.engine.messages.errors import CheckpointError, UsageError
from rlrun.engine.rollout.worker import Orders
from rlrun.engine.training.save import checkpointing
from rlrun.engine.training.save.sections import section_state

if TYPE_CHECKING:
    from rlrun.engine.league.league import League
    from rlrun.engine.training.assemble.policies import Policies
    from rlrun.engine.training.running_training import RunningTraining


def new_policies(policies: Policies, spec: Mapping[str, Any]) -> frozenset[str] | None:
    """Returns the names of policies that a checkpoint lacks, or for which it has another algorithm.

    The result is None if the policies and the mapping of agents to them are the same as in the checkpoint.

    Args:
        policies: Policies of the current training.
        spec: Spec in the checkpoint.

    Raises:
        CheckpointError: The policies in the spec cannot be parsed.
    """
    if policies.is_alone and not spec.get("policies"):
        return None
    try:
        before = checkpointing.saved_policies(spec)
    except (KeyError, TypeError, AttributeError, UsageError) as error:
        raise CheckpointError(f"cannot read the checkpoint's policies: {error}") from error
    kinds = {policy: type(algorithm) for policy, algorithm in before.algorithms.items()}
    new = {policy for policy, algorithm in policies.algorithms.items() if kinds.get(policy) is not type(algorithm)}
    same_roles = before.roles == policies.roles
    if not new and same_roles and list(kinds) == list(policies.algorithms):
        return None
    return frozenset(new)


def load(
    start: Callable[..., RunningTraining], policies: Policies, content: Content, *, for_training: bool = True
) -> None:
    """Restores a training run from a checkpoint.

    If the set of policies has changed since the checkpoint, new policies keep their initial state, and all envs begin
    new episodes. A dataflow is then restored only if it consists of the same operators.

    Args:
        start: Function that starts the training's workers and learners.
        policies: Policies of the training.
        content: The checkpoint.
        for_training: Whether the training will continue; if False, workers and dataflow are not restored, and no worker
            starts.

    Raises:
        CheckpointError: The checkpoint does not fit this env or network.
    """
    new = new_policies(policies, content.spec)
    running = start(for_training=for_training)
    saved = checkpointing.sections_of(content)
    state = section_state(saved, "training")
    owned = {
        policy: _load_trainee(running, content, saved, policy, for_training=for_training)
        for policy in running.branches
        if new is None or policy not in new
    }
    for policy, own in owned.items():
        learner = section_state(own, "learner")
        with checkpointing.refusing("learner section"):
            running.branches[policy].trainee.learner.load_state(learner)
    _load_counts(running, saved, new or ())
    with checkpointing.refusing("training section"):
        running.iteration, running.time_total_s = as_count(state["iteration"]), float(state["time_total_s"])
        running.unsaved = tuple(state.get("unsaved", ()))
    running.results.reset_counts()
    if running.league is not None:
        _load_league(running.league, saved, is_new=new is not None and "league" not in saved)
    running.is_for_training = for_training
    if not for_training:
        running.act_with_current_weights()
        return
    if running.curriculum is not None:
        running.curriculum.kwargs = dict(state.get("curriculum", {}))  # empty if there was no curriculum before
        running.workers.started.order(Orders(env_kwargs=running.curriculum.kwargs))
    running.broadcast()
    if running.hooks is not None and "hooks" in saved:
        with checkpointing.refusing("hooks section"):
            running.hooks.load_state(section_state(saved, "hooks"))
    if running.output is not None and "output" in saved:
        with checkpointing.refusing("output section"):
            running.output.load_state(section_state(saved, "output"))
    if new is None:
        _load_places(running, saved, state, owned)
    else:
        _begin_new_worlds(running, owned, new)


def _load_places(
    running: RunningTraining,
    saved: Mapping[str, Any],
    state: Mapping[str, Any],
    owned: Mapping[str, Mapping[str, Any]],
) -> None:
    """Restores the workers' env states (by replaying episodes) and the dataflows."""
    workers = section_state(saved, "workers")
    flows = {policy: section_state(own, "flow") for policy, own in owned.items()}
    with checkpointing.refusing("workers section"):
        running.env_slots_restarted = running.workers.load_state(workers)
    with checkpointing.refusing("flow section"):
        for policy, branch in running.branches.items():
            if branch.flow is not None:
                branch.flow.load_state(flows[policy], without=branch.shared)
        if running.results.agents is not None:
            running.flow.load_state(state["flow"], without=tuple(running.flows().values()))
            for flow, own in zip(running.shared_flows, state["shared"], strict=True):
                flow.load_state(own)


def _begin_new_worlds(running: RunningTraining, owned: Mapping[str, Mapping[str, Any]], new: Collection[str]) -> None:
    """Resumes with a changed set of policies: all worlds begin new episodes; only unchanged dataflows are restored."""
    running.env_slots_restarted = running.env_slots
    told = [f"policy {policy} starts from scratch" for policy in new]
    for policy, own in owned.items():
        flow, shared = running.branches[policy].flow, running.branches[policy].shared
        if flow is None:
            continue
        try:
            flow.load_state(section_state(own, "flow"), without=shared)
        except CheckpointError:  # the state was saved with another plan
            told.append(f"the dataflow of policy {policy} starts from scratch")
    running.unsaved = (*running.unsaved, *sorted(told))


def _load_league(league: League, saved: Mapping[str, Any], *, is_new: bool) -> None:
    """Restores the league's state, or initializes a new league from the loaded weights."""
    league.clear()
    if is_new:
        return
    state = section_state(saved, "league")
    with checkpointing.refusing("league section"):
        league.load_state(state)


def load_weights(
    running: RunningTraining, content: Content, *, in_part: bool = False, optimizers: bool = False
) -> None:
    """Loads weights and observation statistics from another run's checkpoint, for a warm start.

    Args:
        running: The running training.
        content: A checkpoint of the other run.
        in_part: Whether the other run's policy may lack parameters, such as a value network, or have additional ones.
        optimizers: Whether to load the state of the optimizers.

    Raises:
        CheckpointError: The checkpoint does not fit this env or network.
    """
    saved = checkpointing.sections_of(content)
    for policy, branch in running.branches.items():
        own = checkpointing.trainee_sections_of(saved, policy)
        load = checkpointing.load_policy_in_part if in_part else checkpointing.load_policy
        load(branch.trainee, content)
        if optimizers:
            checkpointing.load_optimizer(branch.trainee, content)
        _load_filters(running, own, policy)
    if running.league is not None:
        running.league.clear()
    running.broadcast()


def freeze_filters(running: RunningTraining) -> None:
    """Stops updating the observation statistics of all policies; normalization continues with their current values."""
    for branch in running.branches.values():
        branch.trainee.filters.is_frozen = True


def adopt(running: RunningTraining, content: Content) -> None:
    """Takes over weights, optimizers, statistics and counters from another run, for population-based training.

    This run keeps its envs, random number generators, iteration count and elapsed time.

    Args:
        running: The running training.
        content: A checkpoint of the other run.

    Raises:
        CheckpointError: The checkpoint does not fit this env or network.
    """
    saved = checkpointing.sections_of(content)
    for policy, branch in running.branches.items():
        own = _load_trainee(running, content, saved, policy, for_training=True)
        with checkpointing.refusing("learner section"):
            branch.trainee.learner.adopt_state(section_state(own, "learner"))
    _load_counts(running, saved)
    running.results.reset_counts()
    running.broadcast()


def _load_trainee(
    running: RunningTraining, content: Content, saved: Mapping[str, Any], policy: str, *, for_training: bool
) -> Mapping[str, Any]:
    """Loads one trainee's policy, optimizer and filter state; returns the trainee's sections.

    For acting, the checkpoint may lack the optimizers, as in a published policy.
    """
    trainee = running.branches[policy].trainee
    own = checkpointing.trainee_sections_of(saved, policy)
    checkpointing.load_policy(trainee, content)
    if for_training or f"optimizers/{policy}" in content.tensors:
        checkpointing.load_optimizer(trainee, content)
    _load_filters(running, own, policy)
    return own


def _load_counts(running: RunningTraining, saved: Mapping[str, Any], new: Collection[str] = ()) -> None:
    """Loads the counts of env steps and episodes, except for new policies."""
    workers, training = (section_state(saved, owner) for owner in ("workers", "training"))
    counts, results = running.workers.counts, running.results
    with checkpointing.refusing("workers section"):
        counts.env_steps = as_count(workers["env_steps"])
        if results.agents is not None:
            counts.load_agent_steps(workers)
            for policy in new:
                counts.agent_steps.pop(policy, None)
    with checkpointing.refusing("training section"):
        results.episodes.load_state(training["episodes"])
        if results.agents is not None:
            results.agents.load_state(training["agents"], new)


def _load_filters(running: RunningTraining, own: Mapping[str, Any], policy: str) -> None:
    trainee, acting = running.branches[policy].trainee, running.acting[policy]
    with checkpointing.refusing("filters section"):
        trainee.filters.load_state(section_state(own, "filters"))
        acting.refresh()
        if trainee.filters.moments:  # filtering raises an error if the moments belong to other observations
            acting.behavior().filter(empty_batch(trainee.spaces.observation, 1))
