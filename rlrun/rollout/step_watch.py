"""Watches over envs that are stepped in the trial's own process, where nobody else would notice that one hangs.

A thread looks once a second whether the env slots have moved on. So a step costs nothing more, and a fragment may take
as long as it likes while its steps come.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
import traceback
import weakref
from collections.abc import Sequence
from types import FrameType, TracebackType
from typing import Protocol

from rlrun.envs.loop_vector_env import waits_for
from rlrun.envs.vector_env import EpisodePlace
from rlrun.errors import TrainingFailed
from rlrun.worlds.running_world import waits_for_world

NOTICE_S = 30.0
"""Seconds without a step after which the user is told what is waited for."""

GRACE_S = 10.0
"""Seconds that a hung step has to end in, once it was told to, before the process ends."""

POLL_S = 1.0
"""Seconds between two looks."""

interrupt_wanted = threading.Event()
"""Set while the user wants the run to end; a hung step is then not waited for."""


class Steps(Protocol):
    """What is watched: envs or worlds that say where they are."""

    def places(self) -> Sequence[EpisodePlace]:
        """Returns where each env slot, or world, is."""
        ...


class StepTimeout(TrainingFailed):
    """No env slot has moved on for `worker_timeout_s`."""


class StepWatch:
    """Tells which step is waited for, and ends the wait.

    A hung step is ended by an exception in it, which a signal brings. Only the main thread can have one: on another
    thread the user is told and nothing more. Native code that hears no signal can be ended with its process alone; the
    trial then goes on from its newest checkpoint when it is resumed.

    Args:
        name: What messages call the envs, with their worker.
        env: The envs.
        timeout_s: Seconds without a step after which the trial fails.
    """

    def __init__(self, name: str, env: Steps, timeout_s: float) -> None:
        self._name = name
        self._env = env
        self._timeout_s = timeout_s
        self._stepping = self._closed = self._is_told = False
        self._places: Sequence[EpisodePlace] = ()
        self._moved = 0.0
        self._thread = threading.get_ident()
        self._can_end = threading.current_thread() is threading.main_thread()
        if self._can_end:
            signal.signal(signal.SIGALRM, _end_step)
        threading.Thread(target=_look_again_and_again, args=(weakref.ref(self),), daemon=True).start()

    def __enter__(self) -> None:
        """Begins a fragment."""
        self._stepping = True

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Ends a fragment."""
        self._stepping = False

    def close(self) -> None:
        """Ends the thread."""
        self._closed = True

    def look(self) -> bool:
        """Sees whether the envs have moved on, and does what is due if they have not.

        Returns:
            Whether to look again.
        """
        latest = self._env.places() if self._stepping else ()
        if not latest or latest != self._places:
            self._places, self._moved, self._is_told = latest, time.monotonic(), False
            return not self._closed
        waited_s = time.monotonic() - self._moved
        if waited_s >= min(NOTICE_S, self._timeout_s) and not self._is_told:
            self._is_told = True
            print(self._notice(waited_s), file=sys.stderr, flush=True)
        if self._is_told and self._can_end:
            self._end_wait(waited_s)
        return not self._closed

    def _end_wait(self, waited_s: float) -> None:
        """Ends a step that is told to be hung if the user wants it or its time is up."""
        if interrupt_wanted.is_set():
            signal.pthread_kill(self._thread, signal.SIGINT)  # as the user's second one
        elif waited_s >= self._timeout_s + GRACE_S:
            text = f"{self._name}: the hung step cannot be ended, so the process ends; `rlrun resume` goes on"
            print(text, file=sys.stderr, flush=True)
            os._exit(TrainingFailed.exit_code)
        elif waited_s >= self._timeout_s:
            _hung.append(self)
            signal.pthread_kill(self._thread, signal.SIGALRM)

    def end_step(self) -> None:
        """Ends the fragment, unless it has ended in the meantime.

        Raises:
            StepTimeout: In the step that hangs.
        """
        if self._stepping:
            raise StepTimeout(f"{self._name}: took no step within {self._timeout_s:g} s (worker_timeout_s)")

    def _notice(self, waited_s: float) -> str:
        frame = sys._current_frames().get(self._thread)
        place = waits_for(frame) or waits_for_world(frame)
        code = "".join(traceback.format_stack(frame, limit=1)).rstrip()
        where = f" ({place})" if place else ""
        return f"{self._name}: has taken no step for {waited_s:.0f} s{where}; it is in\n{code}"


_hung: list[StepWatch] = []
"""Whose step is to be ended by the signal that is on its way; the handler itself keeps no watch and no env alive."""


def _end_step(number: int, frame: FrameType | None) -> None:
    """Handles SIGALRM for all watches of the process."""
    if _hung:
        _hung.pop().end_step()


def _look_again_and_again(watch: weakref.ref[StepWatch]) -> None:
    """Looks once a second, until the watch is closed or nobody has it any more."""
    while (found := watch()) is not None and found.look():
        del found
        time.sleep(POLL_S)
