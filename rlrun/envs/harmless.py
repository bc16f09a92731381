"""Envs, wrappers and arguments that a stranger's file may name: they run no code from elsewhere and write no file.

What is not known to be harmless is refused, not what is known to be harmful. `RecordVideo` writes videos, `make` of
Gymnasium imports what it is told to, and a text among the arguments may name a file to read.
"""

from __future__ import annotations

import re
from typing import Any

import gymnasium

from rlrun.envs.env_config import EnvConfig, TaskConfig
from rlrun.envs.env_ids import is_usable_kind, register_atari

OWN_ENVS = frozenset(
    {
        "rlrun.toys.bernoulli_bandits:BernoulliBandit",
        "rlrun.toys.contextual_bandits:LinearBandit",
        "rlrun.toys.contextual_bandits:WheelBandit",
        "rlrun.toys.lqr:DoubleIntegrator",
        "rlrun.toys.masked_envs:MaskedConsole",
        "rlrun.toys.deep_sea:DeepSea",
        "rlrun.toys.masked_envs:MaskedGrid",
        "rlrun.toys.masked_envs:MaskedMatch",
        "rlrun.toys.repeat_after_me:RepeatAfterMe",
        "rlrun.toys.rich_observations:HighestEntity",
        "rlrun.toys.rich_observations:TwoCameras",
        "rlrun.toys.point_goals:PointGoals",
        "rlrun.toys.sparse_cartpole:SparseCartPole",
        "rlrun.toys.sparse_mountain_car:SparseMountainCar",
        "rlrun.toys.two_lanes:TwoLanes",
        "rlrun.toys.known_optimum:ActionReward",
        "rlrun.toys.known_optimum:AsymmetricBox",
        "rlrun.toys.known_optimum:ConstantReward",
        "rlrun.toys.known_optimum:CueRecall",
        "rlrun.toys.known_optimum:DictCartPole",
        "rlrun.toys.known_optimum:MultiBinaryMatch",
        "rlrun.toys.known_optimum:MultiDiscreteMatch",
        "rlrun.toys.known_optimum:NestedTuple",
        "rlrun.toys.known_optimum:ObservationReward",
        "rlrun.toys.known_optimum:TwoStepCredit",
    }
)
"""Harmless envs of rlrun's own."""

OWN_TASKS = frozenset({"rlrun.toys.bernoulli_bandits:two_arms"})
"""Harmless tasks of rlrun's own."""

WRAPPERS = frozenset(
    {
        "AddRenderObservation",
        "AddWhiteNoise",
        "AtariPreprocessing",
        "Autoreset",
        "ClipAction",
        "ClipReward",
        "DelayObservation",
        "DiscretizeAction",
        "DiscretizeObservation",
        "FilterObservation",
        "FlattenObservation",
        "FrameStackObservation",
        "GrayscaleObservation",
        "MaxAndSkipObservation",
        "NormalizeObservation",
        "NormalizeReward",
        "ObstructView",
        "OrderEnforcing",
        "PassiveEnvChecker",
        "RecordEpisodeStatistics",
        "RepeatAction",
        "RescaleAction",
        "RescaleObservation",
        "ReshapeObservation",
        "ResizeObservation",
        "StickyAction",
        "TimeAwareObservation",
        "TimeLimit",
        "rlrun.envs.task_automaton:TaskAutomaton",
        "rlrun.envs.partial_view:Flicker",
        "rlrun.envs.partial_view:HideVelocities",
        "rlrun.envs.partial_view:PartialView",
        "rlrun.toys.pendulum_images:PendulumImages",
        "rlrun.envs.trials:Trials",
    }
)
"""Harmless wrappers, of Gymnasium and of rlrun's own."""

_PACKAGES = ("gymnasium.envs.", "ale_py.")
"""What registers harmless ids."""

_PLAIN = re.compile(r"[A-Za-z0-9_ +=,-]{0,40}")
_SHOWN_CHARACTERS = 80


def env_demands(env: EnvConfig, path: str) -> list[str]:
    """Returns what an env of a stranger's spec asks for that is not known to be harmless, a clause each.

    Args:
        env: The env.
        path: Where it stands in the spec.
    """
    demands = [] if _is_harmless(env) else [f"{path} {env.id:.80} is none of the known envs, so its code would be run"]
    demands += [*text_demands(env.kwargs, f"{path}.kwargs"), *text_demands(env.reset_options, f"{path}.reset_options")]
    demands += text_demands(env.evaluation_kwargs, f"{path}.evaluation_kwargs")
    demands += task_demands(env.tasks, env.curriculum, path)
    for wrapper in env.wrappers:
        if wrapper.id not in WRAPPERS:
            demands.append(f"{path}.wrappers has {wrapper.id:.80}, which may run code or write files")
        demands += text_demands(wrapper.kwargs, f"{path}.wrappers.{wrapper.id:.80}")
    return demands


def task_demands(tasks: tuple[TaskConfig, ...] | str | None, curriculum: str | None, path: str) -> list[str]:
    """Returns what the tasks and the curriculum of a stranger's env ask for, a clause each.

    Args:
        tasks: The tasks.
        curriculum: The curriculum.
        path: Where the env stands in the spec.
    """
    demands = []
    if isinstance(tasks, str) and tasks not in OWN_TASKS:
        demands.append(f"{path}.tasks {tasks:.80} is code that would be run")
    elif tasks is not None and not isinstance(tasks, str):
        demands += text_demands([task.model_dump() for task in tasks], f"{path}.tasks")
    if curriculum is not None:
        demands.append(f"{path}.curriculum {curriculum:.80} is code that would be run")
    return demands


def text_demands(value: Any, path: str) -> list[str]:
    """Returns which arguments are more than numbers, truth values, short plain texts, and lists and dicts of those.

    Examples:
        >>> text_demands({"map": "4x4", "sizes": [1, 2.5], "file": "../maps/a"}, "env.kwargs")
        ["env.kwargs.file is '../maps/a', which may name a file or code"]
    """
    if value is None or isinstance(value, bool | int | float) or (isinstance(value, str) and _PLAIN.fullmatch(value)):
        return []
    if isinstance(value, dict):
        return [demand for key, item in value.items() for demand in text_demands(item, f"{path}.{key!s:.40}")]
    if isinstance(value, list | tuple):
        return [demand for number, item in enumerate(value) for demand in text_demands(item, f"{path}[{number}]")]
    return [f"{path} is {repr(value)[:_SHOWN_CHARACTERS]}, which may name a file or code"]


def _is_harmless(env: EnvConfig) -> bool:
    """Whether an id is one of rlrun's own envs, or registered by Gymnasium or ALE, or cannot be made at all."""
    if ":" in env.id:
        return env.id in OWN_ENVS
    if env.backend == "envpool":  # which knows its own ids only
        return True
    if env.id not in gymnasium.registry:
        register_atari()
    spec = gymnasium.registry.get(env.id)
    if spec is None or not is_usable_kind(spec):
        return True
    points = (spec.entry_point, spec.vector_entry_point)
    return all(point is None or (isinstance(point, str) and point.startswith(_PACKAGES)) for point in points)
