"""Watchdog for env code that hangs in this process.

A thread checks once a second whether the watched code has made progress, so that steps have no overhead. The timeout
applies to each single step, not to several steps together.
"""

from __future__ import annotations

import math
import os
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

from typing_extensions import override

from rlrun.engine.messages.errors import Interrupted, TrainingFailed
from rlrun.engine.processes.process_end import end_process

if TYPE_CHECKING:
    from rlrun.engine.envs.episode_position import EpisodePosition

NOTICE_S = 30.0
"""Seconds without a step after which a message names the env code that rlrun is waiting for."""

INTERRUPT_S = 10.0
"""Seconds without a step after which watched code counts as hung, once the user has interrupted the run."""

GRACE_S = 10.0
"""Grace period in seconds between the exception raised in hung code and the end of the process."""

POLL_S = 1.0
"""Polling interval of the watchdog thread in seconds."""

interrupt_requested = threading.Event()
"""Event set after the user interrupted the run; hung code is then ended early."""

_Method = TypeVar("_Method", bound=Callable[..., Any])

_limit_s: ContextVar[float] = ContextVar("limit_s", default=math.inf)


class StepTimeout(TrainingFailed):
    """Error for env code that made no progress for `worker_timeout_s` seconds."""


@contextmanager
def hangs_fail_after(seconds: float) -> Iterator[None]:
    """Context manager that sets the timeout of watched env code; there is no timeout outside the context.

    Args:
        seconds: Timeout in seconds, the setting `worker_timeout_s`.
    """
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGALRM, _end_step)
    token = _limit_s.set(seconds)
    try:
        yield
    finally:
        _limit_s.reset(token)


class Watched:
    """Context manager that watches env code for hangs: reports a hang to the user, and interrupts it after a timeout.

    An exception that a signal handler raises interrupts the code. Only the main thread runs signal handlers, so in
    other threads hangs are only reported. Native code that blocks signals can only be ended by killing its process; a
    resumed trial then continues from its newest checkpoint. Hangs in native code that holds the GIL are not detected.

    If watches are nested, only the innermost is active.

    Args:
        name: Name in messages: the env and the call.
        places: Function that returns the episode positions of the stepped env slots; None for a call such as `close`.
    """

    def __init__(self, name: str, places: Callable[[], Sequence[EpisodePosition]] | None = None) -> None:
        self._name = name
        self._find_places = places
        self._timeout_s, self._thread, self._can_end = math.inf, 0, False
        self._stack: list[Watched] = []
        self._begin()

    def __enter__(self) -> None:
        """Starts the watch on the current thread."""
        thread = threading.get_ident()
        if thread != self._thread:
            self._thread, self._can_end = thread, threading.current_thread() is threading.main_thread()
            self._stack = _under_way.setdefault(thread, [])
        self._timeout_s = _limit_s.get()
        self._begin()
        if not _watchdogs:
            _start_watchdog()
        self._stack.append(self)  # the last statement, so that an interrupt before it has no effect

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Ends this watch; the enclosing watch becomes active again."""
        stack = self._stack
        stack.remove(self)
        if stack:
            stack[-1]._begin()

    def _begin(self) -> None:
        self._places: Sequence[EpisodePosition] = ()
        self._moved, self._wished, self._is_told = time.monotonic(), math.inf, False

    def look(self) -> None:
        """Checks once whether the watched env code has made progress since the last check.

        A hang is reported to the user; after the timeout, the code is interrupted.
        """
        latest = () if self._find_places is None else self._find_places()
        now = time.monotonic()
        if latest != self._places:
            self._places, self._moved, self._is_told = latest, now, False
        self._wished = min(self._wished, now) if interrupt_requested.is_set() else math.inf
        waited_s = now - self._moved
        overdue_s = max(waited_s - self._timeout_s, now - max(self._wished, self._moved) - INTERRUPT_S)
        if not self._is_told and (waited_s >= NOTICE_S or overdue_s >= 0):
            self._is_told = True
            print(self._notice(waited_s), file=sys.stderr, flush=True)
        if overdue_s >= 0 and self._can_end:
            self._end_wait(overdue_s)

    def _end_wait(self, overdue_s: float) -> None:
        """Ends hung code after an interrupt by the user or after the timeout."""
        is_wanted = interrupt_requested.is_set()
        if overdue_s >= GRACE_S:
            text = (
                f"{self._name}: the env hangs and cannot be interrupted, so rlrun ends the process; `rlrun "
                "resume` continues the run"
            )
            print(text, file=sys.stderr, flush=True)
            end_process(Interrupted(text) if is_wanted else TrainingFailed(text))
        if is_wanted:
            signal.pthread_kill(self._thread, signal.SIGINT)  # like the user's second SIGINT
        else:
            _hung.append(self)
            signal.pthread_kill(self._thread, signal.SIGALRM)

    def end_step(self) -> None:
        """Raises the timeout error inside the hung code, unless that code has finished in the meantime.

        Raises:
            StepTimeout: Raised in the hung code.
        """
        if self in _under_way.get(threading.get_ident(), ())[-1:]:
            took = " took more than" if self._find_places is None else ": no step finished within"
            raise StepTimeout(f"{self._name}{took} {self._timeout_s:g} s (worker_timeout_s)")

    def _notice(self, waited_s: float) -> str:
        frame = sys._current_frames().get(self._thread)
        place = waits_for(frame) or (str(self._places[0]) if len(self._places) == 1 else "")
        code = "".join(traceback.format_stack(frame, limit=1)).rstrip()
        where = f" ({place})" if place else ""
        took = " has taken" if self._find_places is None else ": no step has finished for"
        return f"{self._name}{took} {waited_s:.0f} s{where}. Current line:\n{code}"


_under_way: dict[int, list[Watched]] = {}
"""Stack of active watches of each thread, innermost last, by the thread's id; ids of finished threads may be reused."""

_hung: list[Watched] = []
"""Watches whose code the pending SIGALRM will end."""

_watchdogs: list[threading.Thread] = []
"""The watchdog thread, once it runs in this process."""

os.register_at_fork(after_in_child=_watchdogs.clear)  # a forked process has no watchdog

_starting = threading.Lock()

_describers: dict[CodeType, Callable[[Mapping[str, Any]], str]] = {}
"""Functions that describe the stepped env based on a method's local variables, by the method's code object."""


def watched_env_call(tell: Callable[[Mapping[str, Any]], str]) -> Callable[[_Method], _Method]:
    """Decorator for methods that call env code: `waits_for` finds their stack frames and describes the stepped env.

    Args:
        tell: Function that describes the env slot or world from the method's local variables; run only in `waits_for`.
    """

    def mark(method: _Method) -> _Method:
        assert isinstance(method, FunctionType)
        _describers[method.__code__] = tell
        return method

    return mark


def waits_for(frame: FrameType | None) -> str:
    """Returns a description of the env slot or world whose code a thread is executing; "" if it executes no env code.

    Args:
        frame: Current stack frame of the thread.
    """
    while frame is not None:
        if frame.f_code in _describers:
            return _describers[frame.f_code](frame.f_locals)
        frame = frame.f_back
    return ""


class Waiting(Watched):
    """Context manager for waits on another program, such as a client, which do not count as hangs.

    It suspends a surrounding `Watched`, whose timeout restarts afterwards.
    """

    def __init__(self) -> None:
        super().__init__("waiting")

    @override
    def look(self) -> None:
        return


def _end_step(number: int, frame: FrameType | None) -> None:
    """SIGALRM handler that ends the hung code of the process."""
    if _hung:
        _hung.pop().end_step()


def _start_watchdog() -> None:
    """Starts the watchdog thread, unless another thread has just started it."""
    with _starting:
        if not _watchdogs:
            _watchdogs.append(threading.Thread(target=_poll_watches, daemon=True))
            _watchdogs[0].start()


def _poll_watches() -> None:
    """Polling loop of the watchdog thread: checks the innermost watch of each thread once a second."""
    try:
        while True:
            _look()  # a separate function, so that no variable here keeps an env alive
            time.sleep(POLL_S)
    finally:
        _watchdogs.clear()


def _look() -> None:
    for stack in list(_under_way.values()):
        for watched in stack[-1:]:  # a slice, since the stack may become empty at any moment
            watched.look()
