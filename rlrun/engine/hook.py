"""Hooks: user-defined callbacks that measure a run and may stop it, without changing the learning.

A hook is a subclass of `Hook` that overrides methods for events; only these methods are called. Each rollout worker has
an instance of the hook, whose methods for episodes and fragments are called once a fragment (a rollout of a fixed
number of steps) is recorded. Another instance in the trial's process receives the events of results, evaluations and
checkpoints.
"""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from rlrun.engine.messages.errors import TrainingFailed, UsageError, did_you_mean
from rlrun.engine.settings.metric import HOOKS, Metric
from rlrun.engine.settings.registry import load_object

EPISODE_EVENTS = ("on_episode_start", "on_episode_step", "on_episode_end")
"""Events that need the recorded steps."""

WORKER_EVENTS = (*EPISODE_EVENTS, "on_fragment")
"""Events that are delivered in each rollout worker."""

TRIAL_EVENTS = ("on_result", "on_evaluation", "on_checkpoint")
"""Events that are delivered in the trial."""


@dataclass(frozen=True)
class Stop:
    """Return value with which a hook stops the run at the end of the iteration.

    Attributes:
        reason: Reason shown by `rlrun status` and `rlrun show`.
        metrics: Values of the hook's declared metrics, by name.
    """

    reason: str
    metrics: Mapping[str, float] = field(default_factory=dict)


Answer = Mapping[str, float] | Stop | None
"""Answer to an event: metrics by declared name, a stop, or nothing."""


@dataclass
class RunningEpisode:
    """State of an agent's running episode, for hooks.

    Attributes:
        slot: Index of the worker's env slot; in multi-agent envs, of the policy's agent slot.
        seed: Seed with which the env was reset.
        policy: Name of the policy.
        agent: Id of the agent; "" in an env with one agent.
        length: Number of steps so far.
        episode_return: Sum of the raw rewards so far.
        notes: Plain data that hooks keep until the episode's end, under names of their choice; saved in checkpoints.
    """

    slot: int
    seed: int
    policy: str
    agent: str
    length: int = 0
    episode_return: float = 0.0
    notes: dict[str, Any] = field(default_factory=dict)


class EpisodeStep(NamedTuple):
    """One step of an episode, as the env returned it: before normalization, clipping and the addition of past steps.

    Attributes:
        observation: Observation before the step; its arrays are read-only.
        action: Action that the env received.
        reward: Raw reward.
        next_observation: Observation after the step.
        terminated: Whether the episode terminated.
        truncated: Whether the episode was truncated.
        columns: Numbers from the step's info, by the names in `env.columns`.
    """

    observation: Any
    action: Any
    reward: float
    next_observation: Any
    terminated: bool
    truncated: bool
    columns: Mapping[str, float]


@dataclass(frozen=True)
class Fragment:
    """Numbers about one rollout fragment, for hooks: env steps and ended episodes.

    Attributes:
        worker: Index of the worker; 0 is the trial's own process.
        number: Index of the fragment among all fragments of its worker, from 0.
        env_steps: Number of env steps in the fragment; a step of a multi-agent env counts once.
        episodes: Number of episodes that ended in the fragment.
    """

    worker: int
    number: int
    env_steps: int
    episodes: int


class Hook:
    """Base class of hooks, user-defined callbacks; subclasses override the methods for the events that they need.

    The attributes of a hook (numbers, strings, lists, dicts and arrays) are its state, which checkpoints save. A hook
    with other attributes must override `state` and `load_state`.

    Attributes:
        declared_metrics: Declarations of the metrics that the methods return; results report them as `hooks/<name>`,
            averaged over an iteration.
        rng: Random generator of the instance, set before the first event and saved in checkpoints.
    """

    declared_metrics: Sequence[Metric] = ()
    rng: np.random.Generator

    def on_episode_start(self, episode: RunningEpisode, observation: Any) -> Answer:
        """Called with the first observation of an episode."""
        return None

    def on_episode_step(self, episode: RunningEpisode, step: EpisodeStep) -> Answer:
        """Called after each step; the episode's length and return already include the step."""
        return None

    def on_episode_end(self, episode: RunningEpisode) -> Answer:
        """Called after an episode's last step."""
        return None

    def on_fragment(self, fragment: Fragment) -> Answer:
        """Called after each fragment (rollout) of a worker, after the events of its episodes."""
        return None

    def on_result(self, result: Mapping[str, Any]) -> Answer:
        """Called with the result row (metrics) of each iteration, before any evaluation."""
        return None

    def on_evaluation(self, evaluation: Mapping[str, Any]) -> Answer:
        """Called with the metrics of each evaluation, `evaluation/episode_return_mean` and others."""
        return None

    def on_checkpoint(self, iteration: int) -> Answer:
        """Called before a checkpoint captures the state, so that the checkpoint includes this method's changes."""
        return None

    def state(self) -> dict[str, Any]:
        """Returns the state for checkpoints as plain data; by default all attributes of the instance."""
        return deepcopy({name: value for name, value in vars(self).items() if name != "rng"})

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Restores the hook from `state()`."""
        vars(self).update(state)


def hook_class(path: str) -> type[Hook]:
    """Imports a hook's class by its import path.

    Args:
        path: `package.module:Class`.

    Raises:
        UsageError: There is no such class, it is not a subclass of `Hook`, it overrides no event method, or it has a
            method for an unknown event.
        UserCodeError: The module raises while it is imported.
    """
    found = load_object(path, "hook")
    if not (isinstance(found, type) and issubclass(found, Hook)):
        raise UsageError(f"'{path}' is not a Hook: derive it from rlrun.plugin.Hook")
    events = (*WORKER_EVENTS, *TRIAL_EVENTS)
    for name in dir(found):
        if name.startswith("on_") and name not in events:
            raise UsageError(f"hook '{path}': unknown event '{name}'{did_you_mean(name, events)}")
    if not subscribed(found, events):
        raise UsageError(f"hook '{path}' does nothing: define at least one of {', '.join(events)}")
    return found


def subscribed(hook: type[Hook], events: Sequence[str]) -> tuple[str, ...]:
    """Returns those of the given events (names of methods of `Hook`) that a hook's class overrides."""
    return tuple(event for event in events if getattr(hook, event) is not getattr(Hook, event))


def worker_hooks(hooks: Sequence[Mapping[str, Mapping[str, Any]]]) -> tuple[Mapping[str, Mapping[str, Any]], ...]:
    """Returns the settings of the hooks that override an event of rollout workers (episodes and fragments).

    Args:
        hooks: Settings of each hook by its import path.
    """
    return tuple(hook for hook in hooks if all(subscribed(hook_class(path), WORKER_EVENTS) for path in hook))


def make_hook(path: str, settings: Mapping[str, Any]) -> Hook:
    """Creates a hook from its class and settings.

    Args:
        path: `package.module:Class`.
        settings: Keyword arguments of the class.

    Raises:
        UsageError: There is no such hook, or it does not accept the arguments.
        TrainingFailed: The hook's constructor raises an exception.
    """
    found = hook_class(path)
    refuse_other_settings(f"hook '{path}'", found, settings)
    try:
        return found(**settings)
    except Exception as error:
        raise TrainingFailed(f"hook {path} raised in __init__:\n{users_traceback(error)}") from error


def users_traceback(error: BaseException) -> str:
    """Returns the traceback of an exception in user code as text, without rlrun's calling frame."""
    trace = error.__traceback__ and error.__traceback__.tb_next
    return "".join(traceback.format_exception(type(error), error, trace)).rstrip()


def refuse_other_settings(what: str, found: type[Any], settings: Mapping[str, Any], *given: str) -> None:
    """Validates that a class accepts the settings in a spec as keyword arguments.

    Args:
        what: Name of the object in messages.
        found: The class.
        settings: The settings.
        given: Names of further arguments, which rlrun itself passes.

    Raises:
        UsageError: The class does not accept a setting, or requires one that is missing.
    """
    signature = inspect.signature(found)
    try:
        signature.bind(*given, **settings)
    except TypeError as error:
        unknown = next((name for name in settings if name not in signature.parameters), "")
        if unknown:
            near = did_you_mean(unknown, [*signature.parameters][len(given) :])
            raise UsageError(f"{what} has no setting {unknown!r}{near or f'; it takes {signature}'}") from None
        raise UsageError(f"{what} takes {signature}: {error}") from None


HOOK_SECONDS = Metric("time/hooks_s", "s", "Seconds spent in the trial's hooks since the last result")
"""Metric of a run with hooks."""


def declared_by(hooks: Sequence[Mapping[str, Mapping[str, Any]]]) -> list[Metric]:
    """Returns the metrics that hooks declare, with the names that they have in results.

    Args:
        hooks: Settings of each hook by its import path.

    Raises:
        UsageError: A hook cannot be created, or two hooks declare metrics with equal names.
    """
    found: list[Metric] = []
    for hook in hooks:
        ((path, settings),) = hook.items()
        for metric in make_hook(path, settings).declared_metrics:
            if any(metric.name == other.name for other in found):
                raise UsageError(f"hooks: two hooks declare a metric '{metric.name}'; rename the metric of '{path}'")
            found.append(metric)
    return [metric.below(HOOKS) for metric in found]


def hook_metrics(hooks: Sequence[Mapping[str, Mapping[str, Any]]]) -> list[Metric]:
    """Returns the metrics of a run with hooks: the hooks' declared metrics, and the time that the hooks take."""
    return [*declared_by(hooks), HOOK_SECONDS]
