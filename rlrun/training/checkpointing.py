"""What a checkpoint of a training holds: one section for each owner, each with a version number of its own.

    tensors   policies/<trainee>, targets/<trainee>, optimizers/<trainee>
    state     training       iteration, seconds, episodes
              workers        places of the envs, counters
              trainees       by name: learner, filters and flow

A later owner adds a section and changes none of the others. Version 1 of the format, which had no sections, is read
for policies, target networks, optimizers, filters and counters; what it held of dataflow, replay and env places is
dropped, and the run goes on with new episodes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rlrun.checkpoint.format import Content
from rlrun.envs.env_config import EnvConfig
from rlrun.errors import CheckpointError, SpecError
from rlrun.registry import algorithm_class
from rlrun.training.demands import refuse_demands, spec_demands

if TYPE_CHECKING:
    from rlrun.algorithm import Algorithm
    from rlrun.flow.flow import Flow
    from rlrun.flow.trainee import Trainee
    from rlrun.learner.update_executor import UpdateExecutor

SECTION_VERSIONS = {"training": 1, "workers": 1, "learner": 1, "filters": 1, "flow": 1}
"""The version of each owner's section that is written, and the newest one that is read."""


def section(owner: str, state: Any) -> dict[str, Any]:
    """Returns an owner's section of a checkpoint."""
    return {"version": SECTION_VERSIONS[owner], "state": state}


def section_state(sections: Mapping[str, Any], owner: str) -> Any:
    """Returns what an owner's section holds.

    Raises:
        CheckpointError: It is missing, or was written by a newer rlrun.
    """
    try:
        found = sections[owner]
        version, state = int(found["version"]), found["state"]
    except (KeyError, TypeError, ValueError) as error:
        raise CheckpointError(f"the checkpoint has no section of its {owner}") from error
    if version > SECTION_VERSIONS[owner]:
        raise CheckpointError(
            f"the checkpoint's section of its {owner} has version {version}, and this rlrun reads up to "
            f"{SECTION_VERSIONS[owner]}; install a newer one"
        )
    return state


def update_executor_of(manifest: Mapping[str, Any]) -> UpdateExecutor:
    """Returns how the updates of a checkpoint's run are computed; older ones say only whether they are compiled."""
    if "update_executor" not in manifest:
        return "compiled" if manifest.get("compiled") else "eager"
    update_executor: UpdateExecutor = manifest["update_executor"]
    return update_executor


def trainee_tensors(trainee: Trainee) -> dict[str, dict[str, Any]]:
    """Returns a trainee's tensors by the stem of their file."""
    learner, parameters = trainee.learner, trainee.policy.parameters
    tensors: dict[str, dict[str, Any]] = {
        f"policies/{trainee.name}": parameters.named(learner.flat()),
        f"optimizers/{trainee.name}": learner.optimizer_state(),
    }
    if (target := learner.target()) is not None:
        tensors[f"targets/{trainee.name}"] = parameters.named(target)
    return tensors


def trainee_sections(trainee: Trainee, flow: Flow[Any]) -> dict[str, Any]:
    """Returns a trainee's sections: learner, filters and dataflow."""
    return {
        "learner": section("learner", trainee.learner.state()),
        "filters": section("filters", trainee.filters.state()),
        "flow": section("flow", flow.state()),
    }


def load_policy(trainee: Trainee, content: Content) -> None:
    """Loads a trainee's parameters, and those of its target network if it has one.

    Raises:
        CheckpointError: They do not fit this env or network.
    """
    parameters = trainee.policy.parameters
    try:
        flat = parameters.from_named(content.tensors[f"policies/{trainee.name}"])
        if trainee.learner.target() is not None:
            trainee.learner.load_target(parameters.from_named(content.tensors[f"targets/{trainee.name}"]))
    except (KeyError, ValueError) as error:
        raise CheckpointError(f"the checkpoint does not fit this env and network: {error}") from error
    trainee.learner.load_flat(flat)


def as_version_2(content: Content) -> Content:
    """Returns a checkpoint's content with sections, also if it was written in version 1 of the format."""
    if content.format_version > 1:
        return content
    state = content.state
    try:
        learner = dict(state["learner"])
        filters = learner.pop("filters")
        counted = {name: state["workers"][name] for name in ("env_steps", "worker_restarts")}
        sections = {
            "training": section(
                "training",
                {"iteration": state["iteration"], "time_total_s": state["time_total_s"], "episodes": state["metrics"]},
            ),
            "workers": section("workers", counted),
            "trainees": {
                "default": {"learner": section("learner", learner), "filters": section("filters", filters)},
            },
        }
    except (KeyError, TypeError) as error:
        raise CheckpointError(f"its state is not one of a checkpoint: {error}") from error
    return Content(content.manifest, content.spec, content.tensors, sections)


@dataclass(frozen=True)
class SavedTraining:
    """What a checkpoint's spec says was trained.

    Attributes:
        algorithm: The algorithm with its settings.
        env: The environment.
        seed: Root seed.
    """

    algorithm: Algorithm[Any]
    env: EnvConfig
    seed: int


def saved_training(content: Content, path: object, *, trust: bool) -> SavedTraining:
    """Returns what a checkpoint's spec describes.

    Args:
        content: The checkpoint.
        path: Where it stands, for messages.
        trust: Whether it may ask for more than what is known to be harmless.

    Raises:
        CheckpointRefused: It asks for more, and `trust` is False.
        CheckpointError: Its spec describes no training.
    """
    try:
        if not trust:
            refuse_demands(spec_demands(content.spec), f"{path}: the checkpoint")
        found = algorithm_class(content.spec["algorithm"])
        env, seed = EnvConfig.parse(content.spec["env"]), int(content.spec["seed"])
        config = found.Config.parse_earlier(content.spec["config"])
    except (KeyError, TypeError, ValueError, SpecError) as error:
        missing = f"it does not say its {error}" if isinstance(error, KeyError) else str(error)
        raise CheckpointError(f"{path}: its spec is not one of a checkpoint: {missing}") from error
    return SavedTraining(found(config), env, seed)
