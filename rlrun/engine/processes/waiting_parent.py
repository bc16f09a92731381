"""Parent process that waits for the command's process, detects its unexpected end, and may restart it.

If native code of an env calls `_exit(0)`, the process ends silently, and nothing inside the process can notice it. A
command that runs trials is therefore forked before large imports. The parent ends with the exit code or signal of the
child. Both stay in one process group, so that a terminal treats them as one command.

A child that dies silently or from a signal is restarted if it has left a note (`restart_note`) that permits a restart,
and the user has not interrupted it. Before the parent forks again, it kills all processes that the child left behind.

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
from itertools import count
from types import FrameType
from typing import NoReturn

from rlrun.engine.processes import restart_note

FIRST_PAUSE_S = 1.0
LONGEST_PAUSE_S = 60.0
"""Maximum pause in seconds before a restart; the pause begins with `FIRST_PAUSE_S` and doubles with each restart."""

FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

SAME_SIGNAL_S = 0.5
"""Seconds within which equal signals in parent and child count as one signal, sent to both."""

_ANNOUNCED = b"\0"
"""Marker byte (not a signal's number) in the child's reports; the next byte is the child's exit code."""

_NOTED = b"\x80"
"""Byte (not a signal's number) with which the child reports that it has left a note for its restart."""

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36


class UnexpectedEnd(Exception):
    """Error for a child process that died from a signal, or exited without announcing its end to the parent.

    `str()` describes how the process ended.

    Attributes:
        code: Exit code of the process, or the negated number of the signal that killed it.
    """

    def __init__(self, text: str, code: int) -> None:
        super().__init__(text)
        self.code = code


def continue_in_child(*, restarts: bool) -> Callable[[int], object]:
    """Forks this process and returns in the child; the parent waits, and ends with the child's exit code or signal.

    Args:
        restarts: Whether the child is restarted after its death, as often as its note permits.

    Returns:
        Function that the child must call with its exit code right before it ends.

    Raises:
        UnexpectedEnd: Raised in the parent if the last child died from a signal, or exited without calling the returned
            function.
        KeyboardInterrupt: Raised in the parent if the user interrupts it between two children.
    """
    _occupy_closed_descriptors()
    if restarts:
        restart_note.open_note()
    handlers = {number: signal.getsignal(number) for number in (*FORWARDED, signal.SIGCHLD)}
    own, to_own = _pipe()
    for restart in count(1):
        from_child, to_parent = _pipe()
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, handlers)
        for number, handler in handlers.items():
            if handler is not signal.SIG_IGN or number == signal.SIGCHLD:  # SIGHUP is ignored under nohup
                signal.signal(number, _note)
        parent, child = os.getpid(), os.fork()
        if not child:
            for descriptor in (from_child, own, to_own):
                os.close(descriptor)
            _die_with_parent(parent)
            for number, handler in handlers.items():
                signal.signal(number, handler)
            return _report_to(to_parent, mask)
        os.close(to_parent)
        signal.set_wakeup_fd(to_own, warn_on_full_buffer=False)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        wait = _Wait(child, own, from_child)
        status, announced = wait.end()
        os.close(from_child)
        end = _end_of(status, announced)
        note = restart_note.read_note()
        if announced is not None or wait.is_interrupted or note is None or restart > note[0]:
            raise end
        _kill_children()
        pause_s = min(FIRST_PAUSE_S * 2 ** (restart - 1), LONGEST_PAUSE_S)
        line = f"the driver (process {child}) {end}; restart {restart} of {note[0]} begins in {pause_s:g} s\n"
        os.write(2, line.encode())
        _pause(own, pause_s)
    raise AssertionError  # the loop never ends


def _report_to(parent: int, mask: Iterable[int]) -> Callable[[int], object]:
    """Starts to report received signals to the parent; returns the function that announces the exit code."""
    signal.set_wakeup_fd(parent, warn_on_full_buffer=False)
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    restart_note.notify_by(lambda: os.write(parent, _NOTED))
    return lambda code: os.write(parent, _ANNOUNCED + bytes([code & 0xFF]))


def _pause(own: int, seconds: float) -> None:
    """Waits between two children.

    Raises:
        KeyboardInterrupt: The user interrupted the command.
    """
    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0:
        if select.select([own], [], [], left)[0] and set(os.read(own, 4096)) & set(FORWARDED):
            raise KeyboardInterrupt


class _Wait:
    """State of the parent that waits for its child: received signals, and reports of the child.

    Args:
        child: Process id of the child process.
        own: File descriptor of the signals that the parent received, one byte per signal number.
        from_child: File descriptor of the signals that the child received, and of its announced exit code.

    Attributes:
        is_interrupted: Whether this process or its child has received a signal that interrupts the command.
    """

    def __init__(self, child: int, own: int, from_child: int) -> None:
        self._child = child
        self._own = own
        self._from_child: int | None = from_child
        self._reported = b""
        self._heard: dict[int, float] = {}
        self._received: list[_Signal] = []  # signals in the parent that are not yet matched with one in the child
        self._received_by_child: list[_Signal] = []
        self._sent: list[_Signal] = []
        self.is_interrupted = False
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
            self.is_interrupted = True
            if when - self._heard.get(number, -math.inf) > SAME_SIGNAL_S:
                self._received.append((number, when))
            self._heard[number] = when
        if self._from_child is None:
            return
        reported = _read(self._from_child)
        if reported == b"":  # closed by the child: the poll would return immediately from now on
            self._poll.unregister(self._from_child)
            self._from_child = None
        self._reported += reported or b""
        if _NOTED in (reported or b""):
            _adopt_orphans()
        for number, when in _signals(reported or b""):
            self.is_interrupted = True
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
"""Received signal: number, and time of receipt."""


def _take(signals: list[_Signal], number: int, when: float) -> bool:
    """Removes the first signal with a given number and about the given time; returns whether one was found."""
    found = next((one for one in signals if one[0] == number and abs(one[1] - when) <= SAME_SIGNAL_S), None)
    if found is not None:
        signals.remove(found)
    return found is not None


def _signals(reported: bytes) -> list[_Signal]:
    now = time.monotonic()
    return [(number, now) for number in reported.partition(_ANNOUNCED)[0] if number in FORWARDED]


def _end_of(status: int, announced: int | None) -> UnexpectedEnd:
    """Ends this process if the child has announced its exit code; otherwise returns the error about the child's end.

    Args:
        status: Status of `waitpid`.
        announced: The announced exit code, or None.
    """
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        return UnexpectedEnd(f"was killed by {_signal_name(number)}", -number)
    code = os.waitstatus_to_exitcode(status)
    if announced is None:
        return UnexpectedEnd(f"ended with exit code {code} during the command", code)
    os._exit(announced or code)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # most real-time signals have no name
        return f"signal {number}"


def die_by(number: int) -> NoReturn:
    """Ends this process with a signal, so that its own parent sees how the child died."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))  # the child dumped core
    if number not in (signal.SIGKILL, signal.SIGSTOP):
        signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
    os._exit(128 + number)  # process 1 of a container is not killed by its own signals


def _adopt_orphans() -> None:
    """Makes this process adopt its descendants whose own parent dies."""
    import ctypes

    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)


def _kill_children() -> None:
    """Kills the processes that a dead child left behind, with all their descendants, and waits for their end."""
    while True:
        for entry in os.listdir("/proc"):
            if entry.isdecimal() and _parent_of(entry) == os.getpid():
                os.kill(int(entry), signal.SIGKILL)
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return


def _parent_of(pid: str) -> int | None:
    """Returns the process id of a process's parent; None if the process has ended."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return int(file.read().rpartition(b")")[2].split()[1])
    except (FileNotFoundError, ProcessLookupError):
        return None


def _die_with_parent(parent: int) -> None:
    """Makes the kernel kill this process when the parent dies."""
    import ctypes  # only in the child, which imports it anyway

    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # the parent died in the meantime
        os._exit(1)


def _note(number: int, frame: FrameType | None) -> None:
    """Signal handler that does nothing: the signal is recorded by the wakeup file descriptor."""


def _pipe() -> tuple[int, int]:
    ends = os.pipe()
    for end in ends:
        os.set_blocking(end, False)
    return ends


def _read(descriptor: int) -> bytes | None:
    """Reads the available bytes of a file descriptor; returns None if there are none yet, and b"" at the end."""
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
