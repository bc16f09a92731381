"""Remote objects under one supervision: whoever dies or hangs is made anew, told what it must know, and asked again."""

from __future__ import annotations

import math
import os
import sys
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from rlrun.actors.actor_shell import ActorShell, Failure
from rlrun.errors import TrainingFailed

START_TIMEOUT_S = 300.0
"""Seconds for an actor's start: its place in the cluster, its imports, its envs."""

LONGEST_BACK_OFF_S = 30.0
"""Seconds between an actor's failures in a row and its next start grow up to this."""

CLOSE_TIMEOUT_S = 5.0
"""Seconds for all actors together to close what they hold."""


@dataclass(eq=False)
class Call:
    """A question to one actor.

    Attributes:
        actor: Index of the actor.
        method: Name of its object's method.
        arguments: The method's arguments.
        allowed_s: Seconds for the answer.
        reference: Ray's reference to the answer, while one is under way.
        done: Whether the answer is there.
        answer: The answer.
    """

    actor: int
    method: str
    arguments: tuple[Any, ...]
    allowed_s: float = math.inf
    reference: Any = None
    done: bool = False
    answer: Any = None


@dataclass(eq=False)
class _Place:
    """One actor's place, which outlives the actors in it.

    Attributes:
        shell: Ray's handle, None between a failure and the restart.
        ready: Reference that says that the object is made, None once it is.
        calls: Questions without an answer, in their order.
        since: When it began to work on the first of them, or was started.
        failures: Failures in a row.
        restart_at: When to start it again.
    """

    shell: Any = None
    ready: Any = None
    calls: deque[Call] = field(default_factory=deque)
    since: float = 0.0
    failures: int = 0
    restart_at: float = 0.0


class SupervisedActors:
    """A number of actors, each a shell around an object of the same factory; Ray must run before one is made.

    Attributes:
        restarts: How many actors were made anew.
    """

    def __init__(
        self,
        factory: str,
        indices: Sequence[int],
        argument: Callable[[int], Any],
        *,
        what: str,
        num_cpus: float,
        timeout_s: float,
        max_restarts: int,
    ) -> None:
        """Starts all actors at once and waits for none.

        Args:
            factory: `module:Name` of a class or function that makes the object from one argument.
            indices: The actors' indices.
            argument: Gives that argument for an index; it is asked again for each restart.
            what: What the object is, for messages: "rollout worker".
            num_cpus: CPUs that the cluster sets aside for each actor.
            timeout_s: Seconds after which an answer is given up and its actor is killed.
            max_restarts: Restarts in all before the failure becomes the run's.
        """
        import ray

        # Without placement options Ray puts the actor into the placement group of a Tune trial that it is created in.
        self._remote_shell = ray.remote(num_cpus=num_cpus, max_restarts=0, max_task_retries=0)(ActorShell)
        self._factory = factory
        self._argument = argument
        self._what = what
        self._timeout_s = timeout_s
        self._start_timeout_s = max(timeout_s, START_TIMEOUT_S)
        self._max_restarts = max_restarts
        self.restarts = 0
        self._told: dict[str, tuple[Any, Any]] = {}
        self._places = {index: _Place() for index in indices}
        for index in indices:
            self._start(index)

    def ask(self, actor: int, method: str, *arguments: Any, may_take_long: bool = False) -> Call:
        """Asks one actor; the answer is in the call once it is done.

        Args:
            actor: Its index.
            method: Name of its object's method.
            arguments: The method's arguments.
            may_take_long: Whether the answer may take as long as a start, such as returning to where an env was.
        """
        call = Call(actor, method, arguments, self._start_timeout_s if may_take_long else self._timeout_s)
        place = self._places[actor]
        if not place.calls:
            place.since = time.monotonic()
        place.calls.append(call)
        self._send(place, call)
        return call

    def tell(self, method: str, value: Any, only: int | None = None) -> None:
        """Calls a method of all objects, or of one, with a value that is put into the object store once.

        An actor that is made anew is told the last value of each method again.
        """
        if method not in self._told or self._told[method][0] is not value:
            import ray

            self._told[method] = (value, ray.put(value))
        for index in self._places if only is None else (only,):
            self._tell(self._places[index], method)

    def attend(self) -> None:
        """Takes in the answers that are there, and makes anew who died or is late; never waits.

        Raises:
            RlrunError: What an object raised, as it was.
            TrainingFailed: If an object raised something else, the restarts are used up, or the cluster has become too
                small.
        """
        ready = self._ready_references()
        for index, place in self._places.items():
            if place.shell is None:
                if time.monotonic() >= place.restart_at:
                    self._start(index)
            elif self._is_started(index, place, ready):
                self._take_answer(index, place, ready)
            self._give_up_if_late(index, place)

    def awaited(self) -> tuple[tuple[Any, ...], float]:
        """Returns the references of which one has to be ready, or else the deadline over, before there is news."""
        references = [reference for place in self._places.values() for reference in _references(place)]
        deadlines = [self._deadline(place) for place in self._places.values() if place.calls]
        return tuple(references), min(deadlines, default=float("inf"))

    def answers(self, calls: Sequence[Call]) -> list[Any]:
        """Waits for calls and returns their answers.

        Raises:
            RlrunError: As `attend`.
        """
        import ray

        while True:
            self.attend()
            if all(call.done for call in calls):
                return [call.answer for call in calls]
            references, deadline = self.awaited()
            remaining = max(deadline - time.monotonic(), 0.0)
            if references:
                ray.wait(list(references), num_returns=1, timeout=remaining)
            else:
                time.sleep(remaining)

    def forget(self) -> None:
        """Drops all questions; what is under way for them is wasted."""
        for place in self._places.values():
            place.calls.clear()

    def close(self) -> None:
        """Lets the objects close what they hold, and ends the actors."""
        import ray

        if not ray.is_initialized():
            return
        shells = [place.shell for place in self._places.values() if place.shell is not None]
        closed = [shell.ask.remote("close") for shell in shells]
        if closed:
            ray.wait(closed, num_returns=len(closed), timeout=CLOSE_TIMEOUT_S)
        for shell in shells:
            ray.kill(shell)
        self._places = {}

    def _start(self, index: int) -> None:
        from ray import cloudpickle

        place = self._places[index]
        place.shell = self._remote_shell.remote(
            self._factory, cloudpickle.dumps(self._argument(index)), [os.path.abspath(path) for path in sys.path]
        )
        place.ready = place.shell.ready.remote()
        place.since = time.monotonic()
        for method in self._told:
            self._tell(place, method)
        for call in place.calls:
            self._send(place, call)

    def _send(self, place: _Place, call: Call) -> None:
        if place.shell is not None:
            call.reference = place.shell.ask.remote(call.method, *call.arguments)

    def _tell(self, place: _Place, method: str) -> None:
        if place.shell is not None:
            place.shell.tell.options(num_returns=0).remote(method, self._told[method][1])

    def _ready_references(self) -> set[Any]:
        import ray

        references = [reference for place in self._places.values() for reference in _references(place)]
        return set(ray.wait(references, num_returns=len(references), timeout=0)[0]) if references else set()

    def _is_started(self, index: int, place: _Place, ready: set[Any]) -> bool:
        if place.ready is None:
            return True
        if place.ready not in ready or not self._received(index, place, place.ready)[0]:
            return False
        place.ready = None
        return True

    def _take_answer(self, index: int, place: _Place, ready: set[Any]) -> None:
        if not place.calls or place.calls[0].reference not in ready:
            return
        call = place.calls[0]
        received, answer = self._received(index, place, call.reference)
        if received:
            call.done, call.answer, call.reference = True, answer, None
            place.calls.popleft()
            place.failures = 0

    def _received(self, index: int, place: _Place, reference: Any) -> tuple[bool, Any]:
        """Returns whether an answer arrived, and the answer; if its actor died, that is dealt with."""
        import ray
        from ray.exceptions import RayError, RayTaskError

        try:
            answer = ray.get(reference)
        except RayTaskError as error:
            raise TrainingFailed(f"{self._what} {index} failed:\n{error.traceback_str}") from None
        except RayError as error:
            self._renew(index, f"died ({_first_line(error)})")
            return False, None
        if isinstance(answer, Failure):
            raise answer.error(f"{self._what} {index}")
        place.since = time.monotonic()
        return True, answer

    def _deadline(self, place: _Place) -> float:
        if place.shell is None:
            return place.restart_at
        return place.since + (place.calls[0].allowed_s if place.ready is None else self._start_timeout_s)

    def _give_up_if_late(self, index: int, place: _Place) -> None:
        if place.shell is None or not place.calls or time.monotonic() < self._deadline(place):
            return
        if place.ready is None:
            self._renew(index, f"gave no answer within {place.calls[0].allowed_s:g} s (worker_timeout_s)")
        elif _is_homeless():
            raise TrainingFailed(
                f"{self._what} {index}: its machine is gone, and for {self._start_timeout_s:g} s no other had room for "
                "it; with failure.max_restarts the trial lets go of what it has and waits for its turn"
            )
        else:
            self._renew(index, f"did not start within {self._start_timeout_s:g} s, perhaps for want of CPUs,")

    def _renew(self, index: int, reason: str) -> None:
        """Ends an actor and has it started again, at once after its first failure and later after each one more."""
        import ray

        place = self._places[index]
        ray.kill(place.shell)
        place.shell = place.ready = None
        if self.restarts >= self._max_restarts:
            raise TrainingFailed(
                f"{self._what} {index} {reason}, and the {self._max_restarts} restarts that max_worker_restarts allows "
                "are used up"
            )
        self.restarts += 1
        back_off = min(2.0 ** (place.failures - 1), LONGEST_BACK_OFF_S) if place.failures else 0.0
        place.failures += 1
        place.restart_at = time.monotonic() + back_off
        for call in place.calls:
            call.reference = None
        if not back_off:
            self._start(index)


def _references(place: _Place) -> list[Any]:
    """Returns what to watch of an actor: its first unanswered question, and its start."""
    watched = [place.ready] if place.ready is not None else []
    if place.calls and place.calls[0].reference is not None:
        watched.append(place.calls[0].reference)
    return watched


def _is_homeless() -> bool:
    """Tells whether this process's placement group has lost a machine and found no room elsewhere yet."""
    import ray

    group = ray.util.get_current_placement_group()
    return group is not None and ray.util.placement_group_table(group)["state"] == "RESCHEDULING"


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).strip().splitlines()[0]}"
