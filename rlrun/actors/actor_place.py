"""One actor's place under supervision: the questions to it, and when it is late."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field
from typing import Any


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
        inbox: Where the call is put once it is done, for whoever asks many at a time; None for nowhere.
    """

    actor: int
    method: str
    arguments: tuple[Any, ...]
    allowed_s: float = math.inf
    reference: Any = None
    done: bool = False
    answer: Any = None
    inbox: deque[Call] | None = None

    def take(self, answer: Any) -> None:
        """Takes the answer."""
        self.done, self.answer, self.reference = True, answer, None
        if self.inbox is not None:
            self.inbox.append(self)


@dataclass(eq=False)
class ActorPlace:
    """One actor's place, which outlives the actors in it.

    Attributes:
        index: The actor's index.
        shell: Ray's handle, None between a failure and the restart.
        ready: Reference that says that the object is made, None once it is.
        calls: Questions without an answer, in their order.
        since: When it began to work on the first of them, or was started.
        failures: Failures in a row.
        restart_at: When to start it again.
    """

    index: int
    shell: Any = None
    ready: Any = None
    calls: deque[Call] = field(default_factory=deque)
    since: float = 0.0
    failures: int = 0
    restart_at: float = 0.0

    @property
    def references(self) -> list[Any]:
        """What to watch: its start, and its first unanswered question."""
        watched = [self.ready] if self.ready is not None else []
        if self.calls and self.calls[0].reference is not None:
            watched.append(self.calls[0].reference)
        return watched

    def deadline(self, start_timeout_s: float) -> float:
        """Returns when to look at an actor that has not answered, on the clock of `time.monotonic`."""
        if self.shell is None:
            return self.restart_at
        if not self.calls:
            return math.inf
        return self.since + (self.calls[0].allowed_s if self.ready is None else start_timeout_s)
