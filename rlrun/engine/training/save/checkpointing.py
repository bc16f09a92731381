"""Reading of a training run's checkpoint: its sections, policies, optimizers and settings."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast, get_args

import numpy as np
from numpy.typing import NDArray

from rlrun.engine.checkpoint.format import Content
from rlrun.engine.data.action_kind import ACTION_KINDS, ActionKind
from rlrun.engine.envs.env_config import EnvConfig, is_unnamed
from rlrun.engine.learner.executors.update_executor import UpdateExecutor
from rlrun.engine.messages.errors import CheckpointError, CompilerMissing, UsageError
from rlrun.engine.settings.registry import load_internal
from rlrun.engine.training.assemble.policies import Policies
from rlrun.engine.training.save.sections import section_state
from rlrun.engine.trust import refuse_risks, spec_risks
from rlrun.engine.worlds.user_env import EnvLike, env_config, other_settings, replaced_env

if TYPE_CHECKING:
    from rlrun.engine.flow.trainee import Trainee
    from rlrun.engine.policy.flat_parameters import FlatParameters

OTHER_ROUNDING = "rlrun.engine.training.rounding:has_other_rounding"
"""Import path of the function that compares this machine's C kernels with those of a checkpoint's run."""

TENSOR_KINDS = ("policies", "targets", "optimizers")
"""File stems of a trainee's tensors in checkpoints, by kind."""


def league_table(content: Content) -> dict[str, Any] | None:
    """Returns the ratings and payoff matrix of a league's players in a checkpoint; None if there is no league.

    Raises:
        CheckpointError: The table is malformed.
    """
    if "league" not in content.state:
        return None
    with refusing("league section"):
        found: dict[str, Any] = section_state(content.state, "league")["table"]
        return {
            "ratings": {str(name): float(rating) for name, rating in found["ratings"].items()},
            "payoffs": [
                {
                    **{side: str(games[side]) for side in ("first", "second")},
                    **{ending: int(games[ending]) for ending in ("wins", "draws", "losses")},
                }
                for games in found["payoffs"]
            ],
        }


def trainee_sections_of(sections: Mapping[str, Any], trainee: str) -> dict[str, Any]:
    """Returns the parts of a checkpoint that belong to one policy: learner, observation statistics and dataflow.

    Raises:
        CheckpointError: The sections are missing.
    """
    trainees = sections.get("trainees")
    found = trainees.get(trainee) if isinstance(trainees, dict) else None
    if not isinstance(found, dict):
        raise CheckpointError(f"the checkpoint has no state of policy {trainee}")
    return dict(found)


@contextmanager
def refusing(part: str) -> Iterator[None]:
    """Context manager that turns exceptions caused by malformed data into CheckpointError.

    Args:
        part: Description of the data that is loaded, for the error message.

    Raises:
        CheckpointError: The data contains a value of an unexpected type or shape.
    """
    try:
        yield
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        reason = f"{type(error).__name__}: {error}"
        raise CheckpointError(f"the checkpoint's {part} is invalid: {reason[:200]}") from error


def has_other_kernels(manifest: Mapping[str, Any], update_executor: UpdateExecutor | None) -> bool:
    """Whether this machine's C kernels may round differently from those of the run that wrote a checkpoint."""
    if not manifest.get("update_executor") == update_executor == "c":
        return False
    is_other: bool = load_internal(OTHER_ROUNDING)(manifest.get("kernels"))
    return is_other


def update_executor_of(manifest: Mapping[str, Any]) -> UpdateExecutor:
    """Returns the backend of parameter updates (C kernels, compiled code, ...) that a checkpoint's manifest names.

    Raises:
        CheckpointError: The backend is missing or unknown.
    """
    recorded = manifest.get("update_executor")
    if recorded not in get_args(UpdateExecutor):
        raise CheckpointError(f"the checkpoint names the unknown update executor {recorded!r:.80}")
    return cast("UpdateExecutor", recorded)


def load_policy(trainee: Trainee, content: Content) -> None:
    """Loads the parameters of a policy and of its target network, if any, from a checkpoint.

    Raises:
        CheckpointError: The parameters do not fit this env or network, or are not finite.
    """
    parameters = trainee.policy.parameters
    try:
        flat = parameters.from_named(finite_tensors(content, f"policies/{trainee.name}"))
        target = f"targets/{trainee.name}"
        if trainee.learner.target() is None:
            if target in content.tensors:
                raise ValueError(f"it has a target network of {trainee.name}, but the algorithm has none")
        elif target not in content.tensors:
            raise ValueError(
                f"it lacks the target network of {trainee.name}, which the algorithm needs; to load only "
                "the parameters that the checkpoint and the new network share, use a stage that starts from an earlier "
                "stage"
            )
        else:
            trainee.learner.load_target(parameters.from_named(finite_tensors(content, target)))
    except (KeyError, ValueError) as error:
        raise CheckpointError(f"the checkpoint does not match this env and network: {error}") from error
    trainee.learner.load_flat(flat)


def load_policy_in_part(trainee: Trainee, content: Content) -> None:
    """Loads only the parameters that a checkpoint and the policy have in common, by name.

    For example, an actor-critic can start from a policy trained by behavior cloning, while its value network keeps its
    initial parameters. A target network without parameters in the checkpoint starts as a copy of the network.

    Raises:
        CheckpointError: There is no common parameter, or a common one has a different shape or is not finite.
    """
    learner, parameters = trainee.learner, trainee.policy.parameters
    try:
        flat = _in_common(parameters, learner.flat(), finite_tensors(content, f"policies/{trainee.name}"))
        target = f"targets/{trainee.name}"
        if learner.target() is not None:
            found = finite_tensors(content, target) if target in content.tensors else {}
            learner.load_target(_in_common(parameters, flat, found) if found else flat)
    except (KeyError, ValueError) as error:
        raise CheckpointError(f"the checkpoint does not match this env and network: {error}") from error
    learner.load_flat(flat)


def _in_common(
    parameters: FlatParameters, flat: NDArray[np.float32], named: Mapping[str, NDArray[np.float32]]
) -> NDArray[np.float32]:
    """Replaces the parameters that a checkpoint contains, by name; the prefix `ACTOR_CRITIC` in names is ignored.

    Raises:
        ValueError: There are no common parameters, or one has a different shape.
    """
    from rlrun.engine.reward_streams.rewarding_policy import ACTOR_CRITIC

    own = parameters.named(flat)
    places = {name.removeprefix(ACTOR_CRITIC): name for name in own}
    bare = {name.removeprefix(ACTOR_CRITIC): tensor for name, tensor in named.items()}
    common = {places[name]: tensor for name, tensor in bare.items() if name in places}
    if not common:
        raise ValueError(f"it has none of this policy's parameters, such as {next(iter(own))}")
    return parameters.from_named({**own, **common})


def load_optimizer(trainee: Trainee, content: Content) -> None:
    """Loads the state of a policy's optimizers, such as Adam's moments, from a checkpoint.

    Raises:
        CheckpointError: The state is missing, belongs to other objectives or sizes, or is not finite.
    """
    stem = f"optimizers/{trainee.name}"
    if stem not in content.tensors:
        raise CheckpointError(
            f"the checkpoint has no {stem}, because it contains only a policy: it can act, or be the start of "
            "a new run (rlrun train --from)"
        )
    try:
        named = finite_tensors(content, stem)
        expected = trainee.learner.optimizer_state()
        if unknown := ", ".join(name for name in named if name not in expected):
            raise ValueError(f"it has {unknown}, which belongs to no objective")
        for name, own in expected.items():
            if named[name].shape != own.shape or named[name].dtype != own.dtype:
                found = f"{named[name].dtype} {named[name].shape}, not {own.dtype} {own.shape}"
                raise ValueError(f"{name} is {found}")
    except (KeyError, ValueError) as error:
        raise CheckpointError(f"the checkpoint's {stem} does not match this network: {error}") from error
    trainee.learner.load_optimizer_state(named)


def finite_tensors(content: Content, stem: str) -> dict[str, NDArray[np.float32]]:
    """Returns the tensors in one file of a checkpoint, after validating that they are float32 and finite.

    Raises:
        KeyError: There is no such file.
        ValueError: A tensor is not float32, or has numbers that are not finite.
    """
    return {name: finite(tensor, f"{stem}: {name}") for name, tensor in content.tensors[stem].items()}


def finite(tensor: NDArray[Any], name: str) -> NDArray[np.float32]:
    """Returns a tensor, after validating that it is float32 and finite.

    Args:
        tensor: Tensor that was loaded.
        name: Name of the tensor, for error messages.

    Raises:
        ValueError: The tensor is not float32, or has numbers that are not finite.
    """
    if tensor.dtype != np.float32:
        raise ValueError(f"{name} has dtype {tensor.dtype}, not float32")
    if not np.isfinite(tensor).all():
        raise ValueError(f"{name} contains NaN or infinite numbers")
    return tensor


def sections_of(content: Content) -> dict[str, Any]:
    """Returns a checkpoint's sections, after validating that each of its tensors belongs to one of the policies.

    Raises:
        CheckpointError: The state is malformed, or tensors belong to none of the policies.
    """
    sections = content.state
    trainees = sections.get("trainees")
    if not isinstance(trainees, dict):
        raise CheckpointError("the checkpoint has no state of its policies")
    owned = {f"{kind}/{name}" for name in trainees for kind in TENSOR_KINDS}
    if unknown := ", ".join(stem for stem in content.tensors if stem not in owned):
        raise CheckpointError(f"the checkpoint has tensors of {unknown}, which belong to none of its policies")
    return sections


@dataclass(frozen=True)
class SavedTraining:
    """Env, policies and seed of a saved training, as read from its checkpoint.

    Attributes:
        policies: The policies, with their algorithms and settings.
        env: The environment, or the multi-agent world.
        seed: Root seed.
        actions: Default kind of actions, greedy or sampled, in evaluations and inference.
        evaluation_env: The environment in which evaluations run; None for `env`.
    """

    policies: Policies
    env: EnvConfig
    seed: int
    actions: ActionKind
    evaluation_env: EnvConfig | None


@contextmanager
def loading(path: object, undo: Callable[[], None]) -> Iterator[None]:
    """Context manager for loading a checkpoint, which adds the checkpoint's path to errors.

    Args:
        path: Path of the checkpoint.
        undo: Function called if loading fails.

    Raises:
        CheckpointError: The checkpoint or its spec cannot be used.
        CompilerMissing: The training's updates need a compiler, which is missing.
    """
    try:
        yield
    except BaseException as error:
        undo()
        if isinstance(error, UsageError) and not isinstance(error, CompilerMissing):
            raise CheckpointError(f"{path}: its spec is not valid: {error}") from error
        if isinstance(error, CheckpointError):
            raise CheckpointError(f"{path}: {error}") from error
        raise


CALLERS_OWN = "<given>"
"""Placeholder id, in the check of a spec's risks, for an env that the caller passes instead of the saved one."""


def saved_training(
    content: Content,
    path: object,
    trained_by: type[Any] = object,
    *,
    trust: bool,
    env: EnvLike | None = None,
    eval_env: EnvLike | None = None,
) -> SavedTraining:
    """Reads env, policies and seed of a training run from its checkpoint.

    Args:
        content: The checkpoint.
        path: Path of the checkpoint, for messages.
        trained_by: Class of which the saved algorithms must be instances.
        trust: Whether to allow a checkpoint that names code or files outside the list of harmless ones.
        env: Replacement for the saved env; None for the saved env.
        eval_env: Replacement for the saved evaluation env; None for the saved one.

    Raises:
        CheckpointRefused: The checkpoint names code or files outside that list, and `trust` is False.
        CheckpointError: The spec does not describe a training run, or the run uses another algorithm, or the env has no
            import name and no replacement is given.
    """
    try:
        saved, seed = EnvConfig.parse(content.spec["env"]), content.spec["seed"]
        if not trust:
            used = dict(content.spec)
            if env is not None:
                kept = {} if isinstance(env, EnvConfig | Mapping) else other_settings(saved)
                used["env"] = {"world" if saved.has_many_agents else "id": CALLERS_OWN, **kept}
            if eval_env is not None:
                used["evaluation"] = None
            refuse_risks(spec_risks(used), f"{path}: the checkpoint")
        if type(seed) is not int or seed < 0:
            raise ValueError(f"invalid seed {seed!r:.80}")
        judged_in = evaluation_env(content.spec)
        policies = saved_policies(content.spec)
        actions = action_kind_of(content.manifest)
    except (KeyError, TypeError, ValueError, AttributeError, UsageError) as error:
        missing = f"the key {error} is missing" if isinstance(error, KeyError) else str(error)
        raise CheckpointError(f"{path}: the checkpoint's spec is invalid: {missing}") from error
    if not all(isinstance(algorithm, trained_by) for algorithm in policies.algorithms.values()):
        found = policies.title if len(policies.algorithms) > 1 else type(policies.first).__name__
        raise CheckpointError(f"{path}: is a checkpoint of {found}, not of {trained_by.__name__}")
    if env is None and is_unnamed(saved.id):
        raise CheckpointError(
            f"{path}: its env {saved.id} was passed as a Python object without an import path: pass it again, "
            "as Training.restore(path, env=...)"
        )
    world = saved if env is None else replaced_env(saved, env)
    return SavedTraining(policies, world, seed, actions, judged_in if eval_env is None else env_config(eval_env))


def action_kind_of(manifest: Mapping[str, Any]) -> ActionKind:
    """Returns the default kind of actions, greedy or sampled, that a checkpoint's manifest records.

    Raises:
        ValueError: The kind is missing or unknown.
    """
    recorded = manifest.get("actions")
    if recorded not in ACTION_KINDS:
        raise ValueError(f"actions must be {' or '.join(ACTION_KINDS)}, not {recorded!r:.80}")
    return cast("ActionKind", recorded)


def saved_policies(spec: Mapping[str, Any]) -> Policies:
    """Reads the policies, with their algorithms and settings, from the spec in a checkpoint.

    Raises:
        CheckpointError: The settings are missing, or contain absurdly large numbers.
        KeyError: Another required key is missing.
        SpecError: Settings are not valid.
        UsageError: There is no such algorithm.
    """
    refuse_huge_numbers(spec.get("policies"))
    return Policies.from_data({**spec, "config": validated_settings(spec)})


def evaluation_env(spec: Mapping[str, Any]) -> EnvConfig | None:
    """Returns the evaluation env that a saved spec names; None if evaluations use the training env.

    Raises:
        SpecError: The env is invalid.
        ValueError: The spec's section on evaluations is malformed.
    """
    evaluation = spec.get("evaluation") or {}
    if not isinstance(evaluation, Mapping):
        raise ValueError(f"evaluation must be a mapping, not {evaluation!r:.80}")
    return EnvConfig.parse(evaluation["env"]) if evaluation.get("env") else None


def validated_settings(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the settings in a checkpoint's spec as plain data, after validating them.

    Raises:
        CheckpointError: The settings are missing, or contain absurdly large numbers.
    """
    config = spec.get("config")
    if not isinstance(config, dict):
        raise CheckpointError(f"config in the checkpoint's spec must be a mapping, not {config!r:.80}")
    refuse_huge_numbers(config)
    return config


LARGEST_NUMBER = 2**53
"""Upper bound on the integers accepted in a checkpoint's settings, so that sizes cannot overflow."""


def refuse_huge_numbers(value: Any) -> None:
    """Validates that no integer in settings exceeds `LARGEST_NUMBER`, beyond which a checkpoint is not trusted.

    Raises:
        CheckpointError: A larger integer was found.
    """
    if isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            refuse_huge_numbers(item)
    elif isinstance(value, int) and abs(value) > LARGEST_NUMBER:
        raise CheckpointError(f"a setting in the checkpoint's spec is too large: {value}")
