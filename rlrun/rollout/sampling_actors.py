"""Actors that are asked for samples, several at a time."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from rlrun.actors.actor_place import Call
from rlrun.actors.supervised_actors import SupervisedActors, unknown


@dataclass(frozen=True)
class Supervision:
    """How remote workers are supervised.

    Attributes:
        num_cpus: CPUs that the cluster sets aside for each worker.
        timeout_s: Seconds after which a fragment is given up and its worker made anew.
        max_restarts: Workers made anew before the failure becomes the trial's.
    """

    num_cpus: float
    timeout_s: float
    max_restarts: int


class SamplingActors:
    """Supervised actors whose objects have `sample`, with the answers that are there and not taken yet.

    Args:
        factory: `module:Name` of what makes an object from its config.
        indices: The actors' indices.
        config: Gives an object's config for an index and the answers that are not taken yet; asked again at a restart.
        what: What an object is, for messages.
        supervision: How the actors are supervised.
        ended_in: Gives for an index what the object was at work on when its actor ended, "" where nobody knows.
    """

    def __init__(
        self,
        factory: str,
        indices: Sequence[int],
        config: Callable[[int, list[Any]], Any],
        *,
        what: str,
        supervision: Supervision,
        ended_in: Callable[[int], str] = unknown,
    ) -> None:
        self._indices = indices
        self._inbox: deque[Call] = deque()
        self._actors = SupervisedActors(
            factory,
            indices,
            lambda index: config(index, [call.answer for call in self._inbox]),
            what=what,
            num_cpus=supervision.num_cpus,
            timeout_s=supervision.timeout_s,
            max_restarts=supervision.max_restarts,
            ended_in=ended_in,
        )

    @property
    def restarts(self) -> int:
        """How many actors were made anew."""
        return self._actors.restarts

    def tell(self, method: str, value: Any, only: int | None = None, about: str = "") -> None:
        """Calls a method of all objects, or of one, with a value that is put into the object store once.

        An actor that is made anew is told the last value of a method, or the last ones about different things.
        """
        self._actors.tell(method, value, only, about)

    def request(self, index: int) -> None:
        """Asks an object for a sample."""
        self._actors.ask(index, "sample").inbox = self._inbox

    def take(self) -> list[Any]:
        """Returns the samples that are there, without waiting for others.

        Raises:
            RlrunError: What an object raised, as it was.
            TrainingFailed: If more actors died than may be made anew.
        """
        self._actors.attend()
        samples = [call.answer for call in self._inbox]
        self._inbox.clear()
        return samples

    def forget(self) -> None:
        """Drops all requests, and the samples that are there."""
        self._inbox.clear()
        self._actors.forget()

    def wait(self, until: float) -> None:
        """Waits until there may be news of a request, or for a moment on the clock of `time.monotonic`."""
        self._actors.wait(until)

    def awaited(self) -> tuple[tuple[Any, ...], float]:
        """Returns the Ray references, and the moment, of which one has to come before there is news of a request."""
        return self._actors.awaited()

    def answers(self, method: str, arguments: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Calls a method of every object with its own arguments, and returns the answers in their order."""
        calls = [
            self._actors.ask(index, method, *own, may_take_long=True)
            for index, own in zip(self._indices, arguments, strict=True)
        ]
        return self._actors.answers(calls)

    def close(self) -> None:
        """Lets the objects close what they hold, and ends the actors."""
        self._actors.close()
