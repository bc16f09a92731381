"""Users' hooks in one process, with the metrics and stop requests that they returned since the last result."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rlrun.engine.envs.step_columns import finite_number
from rlrun.engine.functional.saved_numbers import as_count, load_generator
from rlrun.engine.functional.seeding import generator
from rlrun.engine.hook import Hook, Stop, hook_class, make_hook, subscribed, users_traceback
from rlrun.engine.messages.errors import TrainingFailed
from rlrun.engine.settings.metric import HOOKS, is_name


class HookAnswers:
    """Metrics that users' hooks (callbacks) returned, summed by name, and the first reason they gave to stop the run.

    Attributes:
        stop: Reason to stop the run, "" if there is none.
    """

    def __init__(self) -> None:
        self.stop = ""
        self._sums: dict[str, tuple[float, int]] = {}

    def add(self, path: str, answer: Mapping[str, float] | Stop) -> None:
        """Adds the metrics or the stop reason that a hook returned for an event.

        Args:
            path: Import path of the hook.
            answer: Return value of the hook's callback for the event.
        """
        if isinstance(answer, Stop):
            self.stop = self.stop or f"{path.partition(':')[2]}: {answer.reason}"
            answer = answer.metrics
        for name, value in answer.items():
            self._add(name, float(value), 1)

    def merge(self, other: HookAnswers) -> None:
        """Adds the metrics and the stop reason that hooks in a rollout worker returned for a fragment."""
        for name, (total, count) in other._sums.items():
            self._add(name, total, count)
        self.stop = self.stop or other.stop

    def take_means(self) -> dict[str, float]:
        """Returns the mean of each metric, by its name in results, and clears the sums."""
        taken, self._sums = self._sums, {}
        return {f"{HOOKS}{name}": total / count for name, (total, count) in taken.items()}

    def state(self) -> dict[str, Any]:
        """Returns the sums of metrics and the reason to stop, for a checkpoint."""
        return {"stop": self.stop, "sums": {name: list(own) for name, own in self._sums.items()}}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Restores the sums of metrics and the reason to stop from the result of `state()`."""
        self.stop = str(state["stop"])
        self._sums = {str(name): (float(total), as_count(count)) for name, (total, count) in state["sums"].items()}

    def _add(self, name: str, total: float, count: int) -> None:
        before, number = self._sums.get(name, (0.0, 0))
        self._sums[name] = before + total, number + count


@dataclass(frozen=True)
class HookInstance:
    """A user's hook (an object with callbacks for events), with the import path of its class.

    Attributes:
        path: Import path of the hook's class.
        hook: The hook.
    """

    path: str
    hook: Hook

    def problem(self, answer: Any) -> str:
        """Describes why the value that the hook returned for an event is invalid; returns "" if it is valid."""
        metrics = answer.metrics if isinstance(answer, Stop) else answer
        if not isinstance(metrics, Mapping):
            return f"must return a dict of metrics, a Stop or None, not {answer!r:.80}"
        for name, value in metrics.items():
            if not (isinstance(name, str) and is_name(name)):
                return f"returned {name!r:.80}, which is not a valid metric name: use one line of printable characters"
            if finite_number(value) is None:
                return f"returned {name}, which must be a finite number, not {value!r:.80}"
        return ""


class HookInstances:
    """Creates the users' hooks that subscribe to any of the given events, and calls them, in one process.

    Args:
        hooks: Settings of each hook by its import path.
        events: Names of the events that occur in this process.
        seed: Root seed of the trial.
        stream: Integers, such as the worker's index, that distinguish the random generators of hooks in different
            processes.

    Attributes:
        events: Events to which at least one hook subscribes.
    """

    def __init__(
        self, hooks: Sequence[Mapping[str, Mapping[str, Any]]], events: Sequence[str], seed: int, *stream: int
    ) -> None:
        self._made: dict[str, HookInstance] = {}
        self._subscribers: dict[str, list[HookInstance]] = {}
        for number, plugin in enumerate(hooks):
            ((path, settings),) = plugin.items()
            if not (own := subscribed(hook_class(path), events)):
                continue
            made = HookInstance(path, make_hook(path, settings))
            made.hook.rng = generator(seed, f"hook {path}", number, *stream)
            self._made[f"{number} {path}"] = made
            for event in own:
                self._subscribers.setdefault(event, []).append(made)
        self.events = frozenset(self._subscribers)

    def deliver(self, answers: HookAnswers, event: str, where: Callable[[], str], *arguments: Any) -> None:
        """Calls all hooks that subscribe to an event, and collects their return values.

        Args:
            answers: Collection to which the returned metrics and stop reasons are added.
            event: The event.
            where: Function that describes the env, episode and step, for messages.
            arguments: Arguments of the event.

        Raises:
            TrainingFailed: A hook raises, or returns neither metrics nor a stop reason.
        """
        for made in self._subscribers[event]:
            try:
                answer = getattr(made.hook, event)(*arguments)
            except (Exception, SystemExit) as error:
                text = users_traceback(error)
                raise TrainingFailed(f"hook {made.path} raised an exception in {event} ({where()}):\n{text}") from error
            if answer is None:
                continue
            if problem := made.problem(answer):
                raise TrainingFailed(f"hook {made.path}, {event} ({where()}): {problem}")
            answers.add(made.path, answer)

    def state(self) -> dict[str, Any]:
        """Returns the state of each hook and its random generator, for checkpoints."""
        return {
            name: {"state": made.hook.state(), "rng": dict(made.hook.rng.bit_generator.state)}
            for name, made in self._made.items()
        }

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Restores the hooks from the result of `state()`; skips hooks that were added or removed since."""
        for name, own in state.items():
            if name in self._made:
                hook = self._made[name].hook
                hook.load_state(own["state"])
                load_generator(hook.rng, own["rng"])
