"""Watches over envs' own code that runs in this process, where nobody else would notice that it hangs.

A thread looks once a second whether what is under way has moved on. So a step costs nothing more, and many steps
together may take as long as they like while they come.
"""

from __future__ import annotations

import math
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from types import CodeType, FrameType, FunctionType, TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from rlrun.errors import Interrupted, TrainingFailed
from rlrun.process_end import end_process

if TYPE_CHECKING:
    from rlrun.envs.episode_place import EpisodePlace

NOTICE_S = 30.0
"""Seconds without a step after which the user is told what is waited for."""

INTERRUPT_S = 10.0
"""Seconds without a step after which what is under way counts as hung, once the user wants the run to end."""

GRACE_S = 10.0
"""Seconds that hung code has to end in, once it was told to, before the process ends."""

POLL_S = 1.0
"""Seconds between two looks."""

interrupt_wanted = threading.Event()
"""Set while the user wants the run to end; hung code is then not waited for."""

_Method = TypeVar("_Method", bound=Callable[..., Any])

_limit_s: ContextVar[float] = ContextVar("limit_s", default=math.inf)


class StepTimeout(TrainingFailed):
    """An env's own code has not moved on for `worker_timeout_s`."""


@contextmanager
def hangs_fail_after(seconds: float) -> Iterator[None]:
    """Sets the seconds after which watched code that does not move on fails; without it that waits for ever.

    Args:
        seconds: `worker_timeout_s`.
    """
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGALRM, _end_step)
    token = _limit_s.set(seconds)
    try:
        yield
    finally:
        _limit_s.reset(token)


class Watched:
    """Code of an env that is under way, as a context manager: whoever waits for it is told, and can end the wait.

    What hangs is ended by an exception in it, which a signal brings. Only the main thread can have one: on another
    thread the user is told and nothing more. Native code that hears no signal can be ended with its process alone; a
    trial then goes on from its newest checkpoint when it is resumed. Native code that lets no other thread run is not
    noticed at all.

    Within another one, it alone is watched.

    Args:
        name: What messages call it: the env and what it does.
        places: Returns where the env slots are that are stepped; None if it is a single call, such as `close`.
    """

    def __init__(self, name: str, places: Callable[[], Sequence[EpisodePlace]] | None = None) -> None:
        self._name = name
        self._find_places = places
        self._timeout_s, self._thread, self._can_end = math.inf, 0, False
        self._begin()

    def __enter__(self) -> None:
        """Begins to watch."""
        self._thread = threading.get_ident()
        self._can_end = threading.current_thread() is threading.main_thread()
        self._timeout_s = _limit_s.get()
        self._begin()
        _keep_looking()
        _under_way.setdefault(self._thread, []).append(self)  # last: an interrupt before it leaves nothing behind

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Ends watching; what is around it goes on being watched."""
        stack = _under_way[self._thread]
        stack.remove(self)
        if stack:
            stack[-1]._begin()
        else:
            del _under_way[self._thread]

    def _begin(self) -> None:
        self._places: Sequence[EpisodePlace] = ()
        self._moved, self._wished, self._is_told = time.monotonic(), math.inf, False

    def look(self) -> None:
        """Sees whether the code has moved on, and does what is due if it has not."""
        latest = () if self._find_places is None else self._find_places()
        now = time.monotonic()
        if latest != self._places:
            self._places, self._moved, self._is_told = latest, now, False
        self._wished = min(self._wished, now) if interrupt_wanted.is_set() else math.inf
        waited_s = now - self._moved
        overdue_s = max(waited_s - self._timeout_s, now - max(self._wished, self._moved) - INTERRUPT_S)
        if not self._is_told and (waited_s >= NOTICE_S or overdue_s >= 0):
            self._is_told = True
            print(self._notice(waited_s), file=sys.stderr, flush=True)
        if overdue_s >= 0 and self._can_end:
            self._end_wait(overdue_s)

    def _end_wait(self, overdue_s: float) -> None:
        """Ends code that hangs since the user wants it or its time is up."""
        is_wanted = interrupt_wanted.is_set()
        if overdue_s >= GRACE_S:
            text = f"{self._name}: it hangs and cannot be ended, so the process ends; `rlrun resume` goes on"
            print(text, file=sys.stderr, flush=True)
            end_process(Interrupted(text) if is_wanted else TrainingFailed(text))
        if is_wanted:
            signal.pthread_kill(self._thread, signal.SIGINT)  # as the user's second one
        else:
            _hung.append(self)
            signal.pthread_kill(self._thread, signal.SIGALRM)

    def end_step(self) -> None:
        """Ends the code, unless it has ended in the meantime.

        Raises:
            StepTimeout: In what hangs.
        """
        if self in _under_way.get(threading.get_ident(), ())[-1:]:
            took = " took more than" if self._find_places is None else ": took no step within"
            raise StepTimeout(f"{self._name}{took} {self._timeout_s:g} s (worker_timeout_s)")

    def _notice(self, waited_s: float) -> str:
        frame = sys._current_frames().get(self._thread)
        place = waits_for(frame) or (str(self._places[0]) if len(self._places) == 1 else "")
        code = "".join(traceback.format_stack(frame, limit=1)).rstrip()
        where = f" ({place})" if place else ""
        took = " has taken" if self._find_places is None else ": has taken no step for"
        return f"{self._name}{took} {waited_s:.0f} s{where}; it is in\n{code}"


_under_way: dict[int, list[Watched]] = {}
"""What is watched by thread, the innermost last."""

_hung: list[Watched] = []
"""Whose step is to be ended by the signal that is on its way."""

_lookers: list[threading.Thread] = []
"""The thread that looks, once there is one."""

_starting = threading.Lock()

_tellers: dict[CodeType, Callable[[Mapping[str, Any]], str]] = {}
"""What tells from the local variables of a method where the env is whose code it calls."""


def telling_place(tell: Callable[[Mapping[str, Any]], str]) -> Callable[[_Method], _Method]:
    """Marks a method that calls an env's own code, so that `waits_for` can say where that is.

    Args:
        tell: Gives the words from the local variables of the method. No step has to note anything for it.
    """

    def mark(method: _Method) -> _Method:
        assert isinstance(method, FunctionType)
        _tellers[method.__code__] = tell
        return method

    return mark


def waits_for(frame: FrameType | None) -> str:
    """Returns which env slot or world a thread waits for, "" if it waits for none.

    Args:
        frame: Where the thread is.
    """
    while frame is not None:
        if frame.f_code in _tellers:
            return _tellers[frame.f_code](frame.f_locals)
        frame = frame.f_back
    return ""


def _end_step(number: int, frame: FrameType | None) -> None:
    """Handles SIGALRM for all that is watched in the process."""
    if _hung:
        _hung.pop().end_step()


def _keep_looking() -> None:
    """Starts the thread that looks, unless it runs: a process that was forked has none."""
    with _starting:
        if not any(looker.is_alive() for looker in _lookers):
            _lookers[:] = [threading.Thread(target=_look_again_and_again, daemon=True)]
            _lookers[0].start()


def _look_again_and_again() -> None:
    """Looks once a second at what is innermost in each thread."""
    while True:
        _look()  # no variable of this function keeps an env alive
        time.sleep(POLL_S)


def _look() -> None:
    for stack in list(_under_way.values()):
        for watched in stack[-1:]:  # it may end just now
            watched.look()
