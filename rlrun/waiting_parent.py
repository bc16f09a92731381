"""A parent process that only waits for the command's process, and notices if that ends unannounced.

Native code of an env that calls `_exit(0)` ends the process silently, and nothing inside it can notice. So a command
that runs trials is forked before anything is imported that takes memory or starts threads. The parent ends as the
child does. Both stay in one process group, so that a terminal treats them as one command.

Ctrl-C in a terminal reaches both; a signal that is sent to the command's process id reaches the parent alone. The child
reports the signals that it received, and the parent forwards the others. If the parent is killed, the kernel kills the
child.
"""

from __future__ import annotations

import os
import resource
import select
import signal
import time
from collections.abc import Callable, Iterable
from types import FrameType
from typing import NoReturn

FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

SAME_SIGNAL_S = 0.5
"""Seconds within which the same signal in parent and child counts as one, sent to their group or to each of them."""

_ANNOUNCED = b"\0"
"""No signal's number; the exit code comes after it."""

_PR_SET_PDEATHSIG = 1


class SilentEnd(Exception):
    """The child ended without announcing it.

    Attributes:
        exit_code: Its exit code.
    """

    def __init__(self, exit_code: int) -> None:
        super().__init__(exit_code)
        self.exit_code = exit_code


def go_on_in_child() -> Callable[[int], object]:
    """Forks this process, which continues as the child; the parent waits, and ends with its exit code or signal.

    Returns:
        A function that the child calls with its exit code right before it ends.

    Raises:
        SilentEnd: In the parent, if the child ended without that call.
    """
    _occupy_closed_descriptors()
    (from_child, to_parent), (own, to_own) = _pipe(), _pipe()
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {*FORWARDED, signal.SIGCHLD})
    of_children = signal.signal(signal.SIGCHLD, _note)
    parent, child = os.getpid(), os.fork()
    if child:
        os.close(to_parent)
        _wait_for(child, own, to_own, from_child, mask)
    _die_with(parent)
    for descriptor in (from_child, own, to_own):
        os.close(descriptor)
    signal.signal(signal.SIGCHLD, of_children)
    signal.set_wakeup_fd(to_parent, warn_on_full_buffer=False)
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    return lambda code: os.write(to_parent, _ANNOUNCED + bytes([code & 0xFF]))


def _wait_for(child: int, own: int, to_own: int, from_child: int, mask: Iterable[int]) -> NoReturn:
    """Forwards signals from the parent until the child has ended, and ends likewise."""
    for number in FORWARDED:
        if signal.getsignal(number) is not signal.SIG_IGN:  # as under nohup, where the child has it ignored too
            signal.signal(number, _note)
    signal.set_wakeup_fd(to_own, warn_on_full_buffer=False)
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    _end_as(*_Wait(child, own, from_child).end())


class _Wait:
    """The parent's wait for its child.

    Args:
        child: Process id of the child.
        own: Descriptor from which the numbers of the parent's signals are read, a byte each.
        from_child: Descriptor from which the child's signals are read, and the exit code that it announces.
    """

    def __init__(self, child: int, own: int, from_child: int) -> None:
        self._child = child
        self._own = own
        self._from_child: int | None = from_child
        self._reported = b""
        self._received: list[_Signal] = []  # by the parent, and not yet matched with one of the child
        self._received_by_child: list[_Signal] = []
        self._sent: list[_Signal] = []
        self._poll = select.poll()
        for descriptor in (own, from_child):
            self._poll.register(descriptor, select.POLLIN)

    def end(self) -> tuple[int, int | None]:
        """Returns the child's status of `waitpid`, and the exit code that it announced, None if it did not."""
        while True:
            self._listen()  # before `waitpid`: a byte that arrives after this wakes the poll
            pid, status = os.waitpid(self._child, os.WNOHANG)
            if pid:
                self._listen()
                announced = self._reported.partition(_ANNOUNCED)[2]
                return status, announced[0] if announced else None
            self._forward()
            self._poll.poll(1000 * SAME_SIGNAL_S if self._received else None)

    def _listen(self) -> None:
        """Reads the parent's signals and the child's reports."""
        self._received += _signals(_read(self._own) or b"")
        if self._from_child is None:
            return
        reported = _read(self._from_child)
        if reported == b"":  # closed by the child: the poll would return at once from now on
            self._poll.unregister(self._from_child)
            self._from_child = None
        self._reported += reported or b""
        for number, when in _signals(reported or b""):
            if not _take(self._sent, number, when):
                self._received_by_child.append((number, when))

    def _forward(self) -> None:
        """Sends the child the signals that reached the parent alone."""
        now = time.monotonic()
        for number, when in list(self._received):
            if _take(self._received_by_child, number, when):
                self._received.remove((number, when))
            elif now - when >= SAME_SIGNAL_S:
                self._received.remove((number, when))
                self._sent.append((number, now))
                os.kill(self._child, number)


_Signal = tuple[int, float]
"""A signal's number, and when it was noticed."""


def _take(signals: list[_Signal], number: int, when: float) -> bool:
    """Removes the first signal of this number that was noticed at about that time; returns whether there was one."""
    found = next((one for one in signals if one[0] == number and abs(one[1] - when) <= SAME_SIGNAL_S), None)
    if found is not None:
        signals.remove(found)
    return found is not None


def _signals(reported: bytes) -> list[_Signal]:
    now = time.monotonic()
    return [(number, now) for number in reported.partition(_ANNOUNCED)[0] if number in FORWARDED]


def _end_as(status: int, announced: int | None) -> NoReturn:
    """Ends this process as the child has ended.

    Raises:
        SilentEnd: If it did not announce its end.
    """
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))  # it has left one
        if number not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
        os._exit(128 + number)  # process 1 of a container dies of no signal of its own
    code = os.waitstatus_to_exitcode(status)
    if announced is None:
        raise SilentEnd(code)
    os._exit(announced or code)


def _die_with(parent: int) -> None:
    """Has the kernel kill this process when its parent dies."""
    import ctypes  # in the child alone, which imports it anyway

    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it died in between
        os._exit(1)


def _note(number: int, frame: FrameType | None) -> None:
    """Does nothing: the wakeup descriptor records the signal."""


def _pipe() -> tuple[int, int]:
    ends = os.pipe()
    for end in ends:
        os.set_blocking(end, False)
    return ends


def _read(descriptor: int) -> bytes | None:
    """Returns the bytes that can be read now, None if there are none yet; b"" at the end."""
    try:
        return os.read(descriptor, 4096)
    except BlockingIOError:
        return None


def _occupy_closed_descriptors() -> None:
    """Opens /dev/null for standard descriptors that the caller has closed, so that no pipe gets their numbers."""
    descriptor = os.open(os.devnull, os.O_RDWR)
    while descriptor <= 2:
        descriptor = os.open(os.devnull, os.O_RDWR)
    os.close(descriptor)
