"""State of one supervised actor: its pending calls, restarts and deadlines."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field
from typing import Any


@dataclass(eq=False)
class Call:
    """Call of a method of the object in one actor.

    Attributes:
        actor: Index of the actor.
        method: Name of the method of the actor's object.
        arguments: Arguments of the call.
        allowed_s: Maximum time until the answer in seconds.
        reference: Ray's reference to the answer, while the call runs.
        done: Whether the answer has arrived.
        answer: The answer.
        inbox: Queue to which the call is appended once it is done, for callers that wait for many calls; None for no
            queue.
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
        """Stores the answer of the call, and appends the call to its inbox if it has one."""
        self.done, self.answer, self.reference = True, answer, None
        if self.inbox is not None:
            self.inbox.append(self)


@dataclass(eq=False)
class ActorPlace:
    """State of one supervised actor, kept across its restarts.

    Attributes:
        index: The actor's index.
        shell: Ray's handle of the actor (an `ActorShell`); None between a failure and the restart.
        ready: Ray reference that resolves once the actor's object is constructed; None afterwards.
        calls: Unanswered calls, oldest first.
        since: Start of the current wait, for the actor to start or for its oldest call to be answered, in seconds of
            `time.monotonic`.
        failures: Number of consecutive failures.
        restart_at: Time of the next restart, in seconds of `time.monotonic`.
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
        """Ray references to wait for: the actor's start and its oldest unanswered call."""
        watched = [self.ready] if self.ready is not None else []
        if self.calls and self.calls[0].reference is not None:
            watched.append(self.calls[0].reference)
        return watched

    def deadline(self, start_timeout_s: float) -> float:
        """Returns the time, in seconds of `time.monotonic`, at which the actor's answer or restart is due."""
        if self.shell is None:
            return self.restart_at
        if not self.calls:
            return math.inf
        return self.since + (self.calls[0].allowed_s if self.ready is None else start_timeout_s)
