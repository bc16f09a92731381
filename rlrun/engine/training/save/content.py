"""Content of a training run's checkpoint: a section for each part of the training, each with a version number.

    tensors   policies/<trainee>, targets/<trainee>, optimizers/<trainee>
    state     training       iteration, seconds, episodes
              workers        positions of the envs in their episodes, counters
              league         only with frozen opponents: pool, pay-offs, and copies of other runs' policies
              trainees       by name: learner, filters and flow

A new part adds a section without changing the others.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rlrun.engine.checkpoint.format import Content
from rlrun.engine.settings.registry import OWN_SOURCES, load_internal
from rlrun.engine.training.save.sections import section

if TYPE_CHECKING:
    from rlrun.engine.flow.trainee import Trainee
    from rlrun.engine.learner.executors.update_executor import UpdateExecutor
    from rlrun.engine.training.assemble.description import Description
    from rlrun.engine.training.branch import Branch
    from rlrun.engine.training.running_training import RunningTraining

KERNELS_RECORD = "rlrun.engine.training.rounding:kernels_record"
"""Import path of the function that returns the manifest entries of trainings whose updates run in C kernels."""

SOURCES = "rlrun.engine.settings.sources:sources_of"
"""Import path of the function that returns digests of users' own modules."""


def content_of(
    running: RunningTraining, spec: dict[str, Any], description: Description, update_executor: UpdateExecutor | None
) -> Content:
    """Captures the state of a running training as the content of a checkpoint.

    Args:
        running: The running training.
        spec: Description of the training as plain data, stored in the checkpoint.
        description: Description of the training.
        update_executor: Backend of the training's parameter updates.

    Raises:
        UsageError: The training was restored for acting only.
    """
    trainee = running.trainee
    return Content(
        manifest={
            "observation_space": str(trainee.spaces.observation),
            "action_space": str(trainee.spaces.action),
            "algorithm": description.policies.title,
            "actions": description.actions,
            "update_executor": update_executor,
            **(load_internal(KERNELS_RECORD)(running, description.policies) if update_executor == "c" else {}),
            **({"sources": load_internal(SOURCES)(spec)} if OWN_SOURCES else {}),
            **_spaces_in_words(running),
            "iteration": running.iteration,
            "env_steps": running.workers.counts.env_steps,
            "sgd_steps": sum(own.learner.sgd_steps for own in running.trainees),
        },
        spec=spec,
        tensors={stem: named for own in running.trainees for stem, named in trainee_tensors(own).items()},
        state=sections(running),
    )


def _spaces_in_words(running: RunningTraining) -> dict[str, Any]:
    """Returns each policy's observation and action space as text, for the checkpoint's manifest."""
    if running.results.agents is None:
        return {}
    return {
        "policies": {
            policy: {"observation_space": str(own.observation), "action_space": str(own.action)}
            for policy, own in running.spaces().items()
        }
    }


def sections(running: RunningTraining) -> dict[str, Any]:
    """Captures the state of workers, league, policies and counters as sections of a checkpoint.

    Raises:
        UsageError: The training was restored for acting only.
    """
    running.require_complete()
    workers, results, league = running.workers.state(), running.results, running.league
    own = {
        "iteration": running.iteration,
        "time_total_s": running.time_total_s,
        "episodes": results.episodes.state(),
        "unsaved": list(dict.fromkeys([*running.flow.unsaved(), *workers["unsaved"]])),
    }
    if running.curriculum is not None:
        own["curriculum"] = running.curriculum.kwargs
    if results.agents is not None:
        own["agents"] = results.agents.state()
        own["flow"] = running.flow.state(without=tuple(running.flows().values()))  # the nodes that join the branches
        own["shared"] = [flow.state() for flow in running.shared_flows]
    return {
        "training": section("training", own),
        "workers": section("workers", workers),
        **({} if league is None else {"league": section("league", league.state())}),
        **({} if running.hooks is None else {"hooks": section("hooks", running.hooks.state())}),
        **({} if running.output is None else {"output": section("output", running.output.state())}),
        "trainees": {
            policy: trainee_sections(branch.trainee, _flow_state(branch)) for policy, branch in running.branches.items()
        },
    }


def _flow_state(branch: Branch) -> dict[str, Any]:
    return {} if branch.flow is None else branch.flow.state(without=branch.shared)


def trainee_tensors(trainee: Trainee) -> dict[str, dict[str, Any]]:
    """Returns the tensors of one policy, its target network and its optimizers, by file name."""
    learner, parameters = trainee.learner, trainee.policy.parameters
    tensors: dict[str, dict[str, Any]] = {
        f"policies/{trainee.name}": parameters.named(learner.flat()),
        f"optimizers/{trainee.name}": learner.optimizer_state(),
    }
    if (target := learner.target()) is not None:
        tensors[f"targets/{trainee.name}"] = parameters.named(target)
    return tensors


def trainee_sections(trainee: Trainee, flow: Mapping[str, Any]) -> dict[str, Any]:
    """Captures one policy's state for a checkpoint: its learner, observation statistics and dataflow."""
    return {
        "learner": section("learner", trainee.learner.state()),
        "filters": section("filters", trainee.filters.state()),
        "flow": section("flow", flow),
    }
