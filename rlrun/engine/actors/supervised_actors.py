"""Supervision of Ray actors: an actor that dies or hangs is restarted, and its pending calls are repeated."""

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any

from rlrun.engine.actors.actor_place import ActorPlace, Call
from rlrun.engine.actors.actor_shell import ActorShell, Failure
from rlrun.engine.messages.errors import TrainingFailed

START_TIMEOUT_S = 300.0
"""Timeout of an actor's start: its scheduling in the cluster, its imports, its envs."""

LONGEST_BACK_OFF_S = 30.0
"""Upper bound of the exponential back-off between an actor's consecutive failures and its next start."""

CLOSE_TIMEOUT_S = 5.0
"""Timeout for all actors together to release their resources."""


def unknown(index: int) -> str:
    """Returns "", the default description of an actor's last work in messages."""
    return ""


class SupervisedActors:
    """Ray actors that hold objects of the same kind; an actor that dies or hangs is restarted. Ray must be running.

    The cost of `attend` grows with the number of new answers, but hardly with the number of actors: the references to
    wait for are updated at each call and answer, and deadlines are checked only when the next one has passed. The
    constructor starts all actors at once and waits for none.

    Args:
        make: Function from an index to a picklable factory of the object; called again for each restart.
        indices: The actors' indices.
        what: Kind of the object in messages, such as "rollout worker".
        num_cpus: CPUs that Ray reserves for each actor.
        timeout_s: Maximum time until an answer in seconds, after which the actor is killed.
        max_restarts: Maximum number of restarts of all actors together; one more failure ends the run.
        num_gpus: GPUs that Ray reserves for each actor.
        max_concurrency: Number of calls that an actor executes at a time; above 1, their order is undefined.
        without_it: End of the error message when no restart is left; None to name the setting `max_worker_restarts`.
        ended_in: Function from an index to a description of the object's last work, for messages; "" if unknown.
        name: Name by which other actors find the actor, if there is only one; None for no name.
        needs: Actors that these actors call, supervised together with them; None if there are none.

    Attributes:
        indices: The actors' indices.
        restarts: Number of restarts so far.
    """

    def __init__(
        self,
        make: Callable[[int], Callable[[], Any]],
        indices: Sequence[int],
        *,
        what: str,
        num_cpus: float,
        timeout_s: float,
        max_restarts: int,
        num_gpus: float = 0.0,
        max_concurrency: int = 1,
        without_it: str | None = None,
        ended_in: Callable[[int], str] = unknown,
        name: str | None = None,
        needs: SupervisedActors | None = None,
    ) -> None:
        import ray

        # Without placement options, Ray puts the actor into the placement group of the Tune trial that creates it.
        self._remote_shell = ray.remote(
            num_cpus=num_cpus,
            num_gpus=num_gpus,
            max_concurrency=max_concurrency,
            max_restarts=0,
            max_task_retries=0,
            name=name,
        )(ActorShell)
        self.indices = indices
        self._make, self._what, self._needs = make, what, needs
        self._timeout_s = timeout_s
        self._start_timeout_s = max(timeout_s, START_TIMEOUT_S)
        self._max_restarts = max_restarts
        allowed = f"max_worker_restarts ({max_restarts}) is exhausted"
        self._without_it = without_it or (allowed if max_restarts else "max_worker_restarts is 0")
        self._ended_in = ended_in
        self.restarts = 0
        self._told = BroadcastValues()
        self._places = {index: ActorPlace(index) for index in indices}
        self._watched: dict[Any, ActorPlace] = {}  # actors by the reference of their start or first unanswered call
        self._look_at = math.inf  # no actor's deadline is earlier than this
        for place in self._places.values():
            self._start(place)

    def ask(self, actor: int, method: str, *arguments: Any, may_take_long: bool = False) -> Call:
        """Starts a call of a method of one object; the returned `Call` holds the answer once it is done.

        Args:
            actor: Index of the actor.
            method: Name of the object's method.
            arguments: The method's arguments.
            may_take_long: Whether the call, such as a replay of episodes, may take as long as the start of an actor.
        """
        call = Call(actor, method, arguments, self._start_timeout_s if may_take_long else self._timeout_s)
        place = self._places[actor]
        place.calls.append(call)
        self._send(place, call)
        if len(place.calls) == 1:
            place.since = time.monotonic()
            self._watch(place)
        return call

    def post(self, actor: int, method: str, *arguments: Any) -> None:
        """Calls a method of one object without expecting an answer; the call is lost if the actor dies.

        Args:
            actor: Index of the actor.
            method: Name of the object's method; if the call fails, the failure is the answer to the next call.
            arguments: The method's arguments.
        """
        shell = self._places[actor].shell
        if shell is not None:
            shell.tell.options(num_returns=0).remote(method, *arguments)

    def tell(self, method: str, value: Any, only: int | None = None, about: Hashable = None) -> None:
        """Calls a method of all objects, or of one, with a value that is stored in Ray's object store once.

        After a restart, an actor receives the latest value of each pair of `method` and `about` again.

        Args:
            method: Name of the objects' method.
            value: Argument of the method.
            only: Index of the only actor to call; None for all.
            about: Topic of the value; a new value replaces only the previous value of the same topic.
        """
        asked = self._places if only is None else (only,)
        self._told.tell(method, value, about, [self._places[index].shell for index in asked])

    def attend(self) -> None:
        """Collects the answers that have arrived, and restarts actors that died or exceeded a timeout; does not block.

        Raises:
            RlrunError: An object raised an RlrunError.
            TrainingFailed: An object raised another exception, the restarts are used up, or the cluster has become too
                small.
        """
        if self._needs is not None:
            self._needs.attend()
        for reference, answer in self._arrived():
            place = self._watched.pop(reference, None)
            if place is not None:  # the actor has not been restarted in the meantime
                self._take(place, reference, answer)
        if time.monotonic() >= self._look_at:
            self._restart_late()

    def awaited(self) -> tuple[tuple[Any, ...], float]:
        """Returns the Ray references to wait for, any one of which suffices, and the deadline of the wait."""
        others, before = ((), math.inf) if self._needs is None else self._needs.awaited()
        is_asked = any(place.calls for place in self._places.values())
        return (*self._watched, *others), min(self._look_at if is_asked else math.inf, before)

    def wait(self, until: float = math.inf) -> None:
        """Waits for the next answer or deadline, at most until a given time in seconds of `time.monotonic`."""
        import ray

        references, deadline = self.awaited()
        deadline = min(deadline, until)
        timeout = None if math.isinf(deadline) else max(deadline - time.monotonic(), 0.0)
        if references:
            ray.wait(list(references), num_returns=1, timeout=timeout)
        elif timeout is not None:
            time.sleep(timeout)

    def answers(self, calls: Sequence[Call]) -> list[Any]:
        """Waits until the given calls are answered, and returns the answers.

        Raises:
            RlrunError: An object raised an error; see `attend`.
        """
        while True:
            self.attend()
            if all(call.done for call in calls):
                return [call.answer for call in calls]
            self.wait()

    def answers_of_all(self, method: str, arguments: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Calls a method of every object, each with separate arguments; waits for all answers and returns them.

        The time limit is the same as for an actor's start.

        Raises:
            RlrunError: An object raised an error; see `attend`.
        """
        asked = zip(self.indices, arguments, strict=True)
        return self.answers([self.ask(index, method, *own, may_take_long=True) for index, own in asked])

    def shells(self) -> list[Any]:
        """Returns Ray's handles to the actors, in the order of `indices`, for calls without supervision."""
        return [place.shell for place in self._places.values()]

    def forget(self) -> None:
        """Drops all unanswered calls; their answers are ignored."""
        for place in self._places.values():
            self._unwatch(place)
            place.calls.clear()
            self._watch(place)

    def close(self) -> None:
        """Calls `close` on all objects, and ends the actors."""
        import ray

        if not ray.is_initialized():
            return
        shells = [place.shell for place in self._places.values() if place.shell is not None]
        closed = [shell.ask.remote("close") for shell in shells]
        if closed:
            ray.wait(closed, num_returns=len(closed), timeout=CLOSE_TIMEOUT_S)
        for shell in shells:
            # Ray can lose the kill below if a process reuses an old port; without this, the actor would keep its CPUs.
            shell.leave.options(num_returns=0).remote()
        for shell in shells:
            ray.kill(shell)
        self._places, self._watched, self._look_at = {}, {}, math.inf

    def _start(self, place: ActorPlace) -> None:
        from ray import cloudpickle

        place.shell = self._remote_shell.remote(
            cloudpickle.dumps(self._make(place.index)), [os.path.abspath(path) for path in sys.path]
        )
        place.ready = place.shell.ready.remote()
        place.since = time.monotonic()
        self._told.repeat(place.shell)
        for call in place.calls:
            self._send(place, call)
        self._watch(place)

    def _send(self, place: ActorPlace, call: Call) -> None:
        if place.shell is not None:
            call.reference = place.shell.ask.remote(call.method, *call.arguments)

    def _watch(self, place: ActorPlace) -> None:
        """Adds an actor's references and deadline to the watched ones."""
        self._watched.update(dict.fromkeys(place.references, place))
        self._look_at = min(self._look_at, place.deadline(self._start_timeout_s))

    def _unwatch(self, place: ActorPlace) -> None:
        for reference in place.references:
            self._watched.pop(reference, None)

    def _arrived(self) -> list[tuple[Any, Any]]:
        """Returns the references that are ready, with their values, or the RayErrors that they raise."""
        import ray
        from ray.exceptions import RayError

        if not self._watched:
            return []
        ready, _ = ray.wait(list(self._watched), num_returns=len(self._watched), timeout=0)
        try:
            return list(zip(ready, ray.get(ready), strict=True))  # three times as fast as getting them one by one
        except RayError:
            return [(reference, _held(reference)) for reference in ready]

    def _take(self, place: ActorPlace, reference: Any, answer: Any) -> None:
        """Stores an answer, or restarts the actor if it died instead."""
        from ray.exceptions import RayError, RayTaskError

        if isinstance(answer, RayTaskError):
            raise TrainingFailed(f"{self._what} {place.index} failed:\n{answer.traceback_str}")
        if isinstance(answer, RayError):
            self._renew(place, f"died ({_first_line(answer)})")
            return
        if isinstance(answer, Failure):
            raise answer.error(f"{self._what} {place.index}")
        place.since = time.monotonic()
        if reference == place.ready:
            place.ready = None
        else:
            place.calls.popleft().take(answer)
            place.failures = 0
        self._watch(place)

    def _restart_late(self) -> None:
        """Starts actors whose back-off is over, and restarts those that are late."""
        self._look_at = math.inf
        for place in self._places.values():
            if time.monotonic() >= place.deadline(self._start_timeout_s):
                if place.shell is None:
                    self._start(place)
                else:
                    self._give_up(place)
            self._look_at = min(self._look_at, place.deadline(self._start_timeout_s))

    def _give_up(self, place: ActorPlace) -> None:
        if place.ready is None:
            self._renew(place, f"did not answer within {place.calls[0].allowed_s:g} s (worker_timeout_s)")
        elif _awaits_placement():
            raise TrainingFailed(
                f"{self._what} {place.index}: its machine is gone, and no other machine had room for it "
                f"within {self._start_timeout_s:g} s; set failure.max_restarts to let the trial release its "
                "resources and wait for its turn"
            )
        else:
            self._renew(place, f"did not start within {self._start_timeout_s:g} s, perhaps because no CPUs are free,")

    def _renew(self, place: ActorPlace, reason: str) -> None:
        """Restarts an actor: at once after a first failure, with exponential back-off after further ones."""
        import ray

        self._unwatch(place)
        ray.kill(place.shell)
        place.shell = place.ready = None
        if self.restarts >= self._max_restarts:
            ended_in = self._ended_in(place.index)
            raise TrainingFailed(f"{self._what} {place.index} {reason}{ended_in}, and {self._without_it}")
        self.restarts += 1
        back_off = min(2.0 ** (place.failures - 1), LONGEST_BACK_OFF_S) if place.failures else 0.0
        place.failures += 1
        place.restart_at = time.monotonic() + back_off
        for call in place.calls:
            call.reference = None
        if back_off:
            self._watch(place)
        else:
            self._start(place)


def _awaits_placement() -> bool:
    """Whether this process's placement group has lost a machine and found no room elsewhere yet."""
    import ray

    group = ray.util.get_current_placement_group()
    return group is not None and ray.util.placement_group_table(group)["state"] == "RESCHEDULING"


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).strip().splitlines()[0]}"


def _held(reference: Any) -> Any:
    """Returns a reference's value, or the RayError that it raises."""
    import ray
    from ray.exceptions import RayError

    try:
        return ray.get(reference)
    except RayError as error:
        return error


class BroadcastValues:
    """Latest value that was broadcast to actors for each method and topic; Ray's object store holds each value once."""

    def __init__(self) -> None:
        self._values: dict[tuple[str, Hashable], tuple[Any, Any]] = {}  # each value with its Ray reference

    def tell(self, method: str, value: Any, about: Hashable, shells: Iterable[Any]) -> None:
        """Calls a method of each actor's object with a value, which replaces the previous value of the same topic.

        Args:
            method: Name of the method.
            value: Argument of the method; if it is the same object as last time, it is not stored again.
            about: Topic of the value, such as the name of a policy.
            shells: Ray handles to the actors; None for an actor that has failed and has not been restarted yet.
        """
        key = method, about
        if key not in self._values or self._values[key][0] is not value:
            import ray

            self._values[key] = (value, ray.put(value))
        _, reference = self._values[key]
        for shell in shells:
            if shell is not None:
                shell.tell.options(num_returns=0).remote(method, reference)

    def repeat(self, shell: Any) -> None:
        """Sends a restarted actor the latest value of each method and topic again, in the order of the broadcasts."""
        for (method, _), (_, reference) in self._values.items():
            shell.tell.options(num_returns=0).remote(method, reference)
