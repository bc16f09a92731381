"""Parent process that waits for the process of the command, and detects if that process ends unexpectedly.

If native code of an env calls `_exit(0)`, the process ends silently, and nothing inside the process can notice it. A
command that runs trials is therefore forked before large imports. The parent ends with the exit code or signal of the
child. Both stay in one process group, so that a terminal treats them as one command.

Ctrl-C in a terminal reaches both processes; a signal sent to the command's process id reaches only the parent. The
child reports to the parent which signals it received, and the parent forwards all others. Equal signals within half a
second count as one, since `timeout` sends each signal to the command's process and then to its group. If the parent is
killed, the kernel kills the child.
"""

from __future__ import annotations

import math
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
"""Seconds within which equal signals in parent and child count as one signal, sent to both."""

_ANNOUNCED = b"\0"
"""Marker byte (not a signal's number) in the child's reports; the next byte is the child's exit code."""

_PR_SET_PDEATHSIG = 1


class SilentEnd(Exception):
    """Error for a child process that exited without announcing its end to the parent.

    Attributes:
        exit_code: Exit code that the operating system reported for the child.
    """

    def __init__(self, exit_code: int) -> None:
        super().__init__(exit_code)
        self.exit_code = exit_code


def continue_in_child() -> Callable[[int], object]:
    """Forks this process and returns in the child; the parent waits, and ends with the child's exit code or signal.

    Returns:
        Function that the child must call with its exit code right before it ends.

    Raises:
        SilentEnd: Raised in the parent if the child exited without calling the returned function.
    """
    _occupy_closed_descriptors()
    (from_child, to_parent), (own, to_own) = _pipe(), _pipe()
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {*FORWARDED, signal.SIGCHLD})
    of_children = signal.signal(signal.SIGCHLD, _note)
    parent, child = os.getpid(), os.fork()
    if child:
        os.close(to_parent)
        _wait_for(child, own, to_own, from_child, mask)
    _die_with_parent(parent)
    for descriptor in (from_child, own, to_own):
        os.close(descriptor)
    signal.signal(signal.SIGCHLD, of_children)
    signal.set_wakeup_fd(to_parent, warn_on_full_buffer=False)
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    return lambda code: os.write(to_parent, _ANNOUNCED + bytes([code & 0xFF]))


def _wait_for(child: int, own: int, to_own: int, from_child: int, mask: Iterable[int]) -> NoReturn:
    """Forwards signals to the child until the child has ended, then ends this process in the same way."""
    for number in FORWARDED:
        if signal.getsignal(number) is not signal.SIG_IGN:  # as under nohup, where the child has it ignored too
            signal.signal(number, _note)
    signal.set_wakeup_fd(to_own, warn_on_full_buffer=False)
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    _end_as(*_Wait(child, own, from_child).end())


class _Wait:
    """State of the parent that waits for its child: received signals, and reports of the child.

    Args:
        child: Process id of the child process.
        own: File descriptor of the signals that the parent received, one byte per signal number.
        from_child: File descriptor of the signals that the child received, and of its announced exit code.
    """

    def __init__(self, child: int, own: int, from_child: int) -> None:
        self._child = child
        self._own = own
        self._from_child: int | None = from_child
        self._reported = b""
        self._heard: dict[int, float] = {}
        self._received: list[_Signal] = []  # by the parent, and not yet matched with one of the child
        self._received_by_child: list[_Signal] = []
        self._sent: list[_Signal] = []
        self._poll = select.poll()
        for descriptor in (own, from_child):
            self._poll.register(descriptor, select.POLLIN)

    def end(self) -> tuple[int, int | None]:
        """Waits for the child's end; returns the status of `waitpid`, and the announced exit code or None."""
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
        """Reads the OS signals that this parent process has received, and the messages of the child process."""
        for number, when in _signals(_read(self._own) or b""):
            if when - self._heard.get(number, -math.inf) > SAME_SIGNAL_S:
                self._received.append((number, when))
            self._heard[number] = when
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
        """Sends the child the signals that reached only the parent."""
        now = time.monotonic()
        for number, when in list(self._received):
            if _take(self._received_by_child, number, when):
                self._received.remove((number, when))
            elif now - when >= SAME_SIGNAL_S:
                self._received.remove((number, when))
                self._sent.append((number, now))
                os.kill(self._child, number)


_Signal = tuple[int, float]
"""Type of a received signal: number, and time of receipt."""


def _take(signals: list[_Signal], number: int, when: float) -> bool:
    """Removes the first signal with a given number and about a given time; returns whether one was found."""
    found = next((one for one in signals if one[0] == number and abs(one[1] - when) <= SAME_SIGNAL_S), None)
    if found is not None:
        signals.remove(found)
    return found is not None


def _signals(reported: bytes) -> list[_Signal]:
    now = time.monotonic()
    return [(number, now) for number in reported.partition(_ANNOUNCED)[0] if number in FORWARDED]


def _end_as(status: int, announced: int | None) -> NoReturn:
    """Ends this process with the exit code or signal of the child.

    Raises:
        SilentEnd: If the child did not announce its exit code.
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


def _die_with_parent(parent: int) -> None:
    """Makes the kernel kill this process when the parent dies."""
    import ctypes  # in the child alone, which imports it anyway

    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it died in between
        os._exit(1)


def _note(number: int, frame: FrameType | None) -> None:
    """Signal handler that does nothing: the signal is recorded by the wakeup file descriptor."""


def _pipe() -> tuple[int, int]:
    ends = os.pipe()
    for end in ends:
        os.set_blocking(end, False)
    return ends


def _read(descriptor: int) -> bytes | None:
    """Reads the available bytes of a file descriptor, None if there are none yet; b"" at the end."""
    try:
        return os.read(descriptor, 4096)
    except BlockingIOError:
        return None


def _occupy_closed_descriptors() -> None:
    """Opens /dev/null for closed standard descriptors, so that no pipe gets their numbers."""
    descriptor = os.open(os.devnull, os.O_RDWR)
    while descriptor <= 2:
        descriptor = os.open(os.devnull, os.O_RDWR)
    os.close(descriptor)
