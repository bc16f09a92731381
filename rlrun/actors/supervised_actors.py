"""Remote objects under one supervision: whoever dies or hangs is made anew, told what it must know, and asked again."""

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import Callable, Hashable, Sequence
from typing import Any

from rlrun.actors.actor_place import ActorPlace, Call
from rlrun.actors.actor_shell import ActorShell, Failure
from rlrun.errors import TrainingFailed

START_TIMEOUT_S = 300.0
"""Seconds for an actor's start: its place in the cluster, its imports, its envs."""

LONGEST_BACK_OFF_S = 30.0
"""Seconds between an actor's failures in a row and its next start grow up to this."""

CLOSE_TIMEOUT_S = 5.0
"""Seconds for all actors together to close what they hold."""


def unknown(index: int) -> str:
    """Knows nothing of what an object was at work on when its actor ended."""
    return ""


class SupervisedActors:
    """A number of actors, each a shell around an object of the same kind; Ray must run before one is made.

    What a look at them costs grows with the answers that are there, and hardly with the number of actors: what to watch
    is kept up to date with every question and answer, and deadlines are gone through when the next of them has come.
    Making them starts all actors at once and waits for none.

    Args:
        make: Gives for an index what makes the object when it is called in the actor; asked again for each restart.
        indices: The actors' indices.
        what: What the object is, for messages: "rollout worker".
        num_cpus: CPUs that the cluster sets aside for each actor.
        timeout_s: Seconds after which an answer is given up and its actor is killed.
        max_restarts: Restarts in all before the failure becomes the run's.
        num_gpus: GPUs that the cluster sets aside for each actor.
        max_concurrency: Calls that an actor works on at a time; with several, in any order.
        without_it: What is said of an actor that no restart is left for; None for a word about the restarts.
        ended_in: Gives for an index what its object was at work on when the actor ended, "" where nobody knows.

    Attributes:
        indices: The actors' indices.
        restarts: How many actors were made anew.
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
    ) -> None:
        import ray

        # Without placement options Ray puts the actor into the placement group of a Tune trial that it is created in.
        self._remote_shell = ray.remote(
            num_cpus=num_cpus,
            num_gpus=num_gpus,
            max_concurrency=max_concurrency,
            max_restarts=0,
            max_task_retries=0,
        )(ActorShell)
        self.indices = indices
        self._make = make
        self._what = what
        self._timeout_s = timeout_s
        self._start_timeout_s = max(timeout_s, START_TIMEOUT_S)
        self._max_restarts = max_restarts
        allowed = f"the {max_restarts} restarts that max_worker_restarts allows are used up"
        self._without_it = without_it or (allowed if max_restarts else "max_worker_restarts allows no restart")
        self._ended_in = ended_in
        self.restarts = 0
        # By method and what about: a value and its reference.
        self._told: dict[tuple[str, Hashable], tuple[Any, Any]] = {}
        self._places = {index: ActorPlace(index) for index in indices}
        self._watched: dict[Any, ActorPlace] = {}  # each actor's start and its first unanswered question, by reference
        self._look_at = math.inf  # no deadline is before this
        for place in self._places.values():
            self._start(place)

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
        place.calls.append(call)
        self._send(place, call)
        if len(place.calls) == 1:
            place.since = time.monotonic()
            self._watch(place)
        return call

    def post(self, actor: int, method: str, *arguments: Any) -> None:
        """Calls a method of one object, which nobody waits for; it is lost with the actor, and while there is none.

        Args:
            actor: Its index.
            method: Name of its object's method; what that raises is the answer to the next question.
            arguments: The method's arguments.
        """
        shell = self._places[actor].shell
        if shell is not None:
            shell.tell.options(num_returns=0).remote(method, *arguments)

    def tell(self, method: str, value: Any, only: int | None = None, about: Hashable = None) -> None:
        """Calls a method of all objects, or of one, with a value that is put into the object store once.

        An actor that is made anew is told the last value of each method again, or the last ones about different things.

        Args:
            method: Its name.
            value: What it is called with.
            only: The index of the one object; None for all.
            about: What the value is about, where the values of one method do not replace one another.
        """
        key = method, about
        if key not in self._told or self._told[key][0] is not value:
            import ray

            self._told[key] = (value, ray.put(value))
        for index in self._places if only is None else (only,):
            self._tell(self._places[index], key)

    def attend(self) -> None:
        """Takes in the answers that are there, and makes anew who died or is late; never waits.

        Raises:
            RlrunError: What an object raised, as it was.
            TrainingFailed: If an object raised something else, the restarts are used up, or the cluster has become too
                small.
        """
        for reference, answer in self._arrived():
            place = self._watched.pop(reference, None)
            if place is not None:  # its actor was not made anew meanwhile
                self._take(place, reference, answer)
        if time.monotonic() >= self._look_at:
            self._look_for_late()

    def awaited(self) -> tuple[tuple[Any, ...], float]:
        """Returns the references of which one has to be ready, or else the deadline over, before there is news."""
        is_asked = any(place.calls for place in self._places.values())
        return tuple(self._watched), self._look_at if is_asked else math.inf

    def wait(self, until: float = math.inf) -> None:
        """Waits for news, or for a moment on the clock of `time.monotonic`."""
        import ray

        references, deadline = self.awaited()
        deadline = min(deadline, until)
        timeout = None if math.isinf(deadline) else max(deadline - time.monotonic(), 0.0)
        if references:
            ray.wait(list(references), num_returns=1, timeout=timeout)
        elif timeout is not None:
            time.sleep(timeout)

    def answers(self, calls: Sequence[Call]) -> list[Any]:
        """Waits for calls and returns their answers.

        Raises:
            RlrunError: As `attend`.
        """
        while True:
            self.attend()
            if all(call.done for call in calls):
                return [call.answer for call in calls]
            self.wait()

    def answers_of_all(self, method: str, arguments: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Calls a method of every object with its own arguments, however long that takes, and returns the answers.

        Raises:
            RlrunError: As `attend`.
        """
        asked = zip(self.indices, arguments, strict=True)
        return self.answers([self.ask(index, method, *own, may_take_long=True) for index, own in asked])

    def shells(self) -> list[Any]:
        """Returns Ray's handles of the actors, in their order, for those that are to call them directly."""
        return [place.shell for place in self._places.values()]

    def forget(self) -> None:
        """Drops all questions; what is under way for them is wasted."""
        for place in self._places.values():
            self._unwatch(place)
            place.calls.clear()
            self._watch(place)

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
            # Ray may lose a kill where a process has the port of one before it; the actor would keep its CPUs for ever.
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
        for key in self._told:
            self._tell(place, key)
        for call in place.calls:
            self._send(place, call)
        self._watch(place)

    def _send(self, place: ActorPlace, call: Call) -> None:
        if place.shell is not None:
            call.reference = place.shell.ask.remote(call.method, *call.arguments)

    def _tell(self, place: ActorPlace, key: tuple[str, Hashable]) -> None:
        if place.shell is not None:
            place.shell.tell.options(num_returns=0).remote(key[0], self._told[key][1])

    def _watch(self, place: ActorPlace) -> None:
        """Has an actor's next answer noticed, and its being late."""
        self._watched.update(dict.fromkeys(place.references, place))
        self._look_at = min(self._look_at, place.deadline(self._start_timeout_s))

    def _unwatch(self, place: ActorPlace) -> None:
        for reference in place.references:
            self._watched.pop(reference, None)

    def _arrived(self) -> list[tuple[Any, Any]]:
        """Returns the references that are ready, with what they hold or the RayError that they end in."""
        import ray
        from ray.exceptions import RayError

        if not self._watched:
            return []
        ready, _ = ray.wait(list(self._watched), num_returns=len(self._watched), timeout=0)
        try:
            return list(zip(ready, ray.get(ready), strict=True))  # all at once costs a third of one by one
        except RayError:
            return [(reference, _held(reference)) for reference in ready]

    def _take(self, place: ActorPlace, reference: Any, answer: Any) -> None:
        """Takes an answer; if the actor died instead, that is dealt with."""
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

    def _look_for_late(self) -> None:
        """Starts who has waited long enough after a failure, and makes anew who is late."""
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
            self._renew(place, f"gave no answer within {place.calls[0].allowed_s:g} s (worker_timeout_s)")
        elif _is_homeless():
            raise TrainingFailed(
                f"{self._what} {place.index}: its machine is gone, and for {self._start_timeout_s:g} s no other had "
                "room for it; with failure.max_restarts the trial lets go of what it has and waits for its turn"
            )
        else:
            self._renew(place, f"did not start within {self._start_timeout_s:g} s, perhaps for want of CPUs,")

    def _renew(self, place: ActorPlace, reason: str) -> None:
        """Ends an actor and has it started again, at once after its first failure and later after each one more."""
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


def _is_homeless() -> bool:
    """Whether this process's placement group has lost a machine and found no room elsewhere yet."""
    import ray

    group = ray.util.get_current_placement_group()
    return group is not None and ray.util.placement_group_table(group)["state"] == "RESCHEDULING"


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).strip().splitlines()[0]}"


def _held(reference: Any) -> Any:
    """Returns what a reference holds, or the RayError that it ends in."""
    import ray
    from ray.exceptions import RayError

    try:
        return ray.get(reference)
    except RayError as error:
        return error
