"""A command's parent ends as the command does, hands signals on, and knows an end that nobody has announced."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from rlrun.engine.processes.waiting_parent import FORWARDED, _Wait

BEGIN = """
import os, signal, sys
from rlrun.engine.processes.signals import listen
from rlrun.engine.processes.waiting_parent import SilentEnd, continue_in_child
listen()
try:
    announce = continue_in_child()
except SilentEnd as end:
    print("silent", end.exit_code)
    sys.exit(4)
"""


def begun(program: str) -> subprocess.Popen[str]:
    """Starts a program in a session of its own, behind the fork."""
    command = [sys.executable, "-c", BEGIN + program]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)


@pytest.mark.parametrize(
    ("program", "code", "told"),
    [
        ("announce(0)", 0, ""),
        ("announce(3); sys.exit(3)", 3, ""),
        ("announce(4); os._exit(0)  # as an exit function may", 4, ""),
        ("announce(0); sys.exit(120)  # as when stdout cannot be written at the end", 120, ""),
        ("os._exit(0)", 4, "silent 0\n"),
        ("os._exit(5)", 4, "silent 5\n"),
        ("announce(0); os.kill(os.getpid(), signal.SIGSEGV)", -signal.SIGSEGV, ""),
    ],
)
def test_the_parent_ends_as_the_child_does_and_tells_an_end_without_a_word(program: str, code: int, told: str) -> None:
    process = begun(program)
    out, _ = process.communicate()
    assert (process.returncode, out) == (code, told)


# No signal.pause(): a signal that comes right before it would be waited for once more.
PAUSED = """
import time
try:
    print(os.getpid(), flush=True)
    while True:
        time.sleep(0.01)
except KeyboardInterrupt:
    announce(130)
    sys.exit(130)
"""


@pytest.mark.parametrize("number", FORWARDED)
def test_a_signal_to_the_parent_alone_reaches_the_child(number: signal.Signals) -> None:
    process = begun(PAUSED)
    assert process.stdout is not None
    assert int(process.stdout.readline()) != process.pid
    process.send_signal(number)
    process.communicate()
    assert process.returncode == 130


def test_a_killed_parent_takes_the_child_with_it() -> None:
    process = begun(PAUSED)
    assert process.stdout is not None
    process.stdout.readline()
    process.kill()
    assert process.communicate()[0] == ""  # the child has closed its end, too


@pytest.mark.parametrize(
    ("told", "same_signal_s", "sent"),
    [([signal.SIGALRM, signal.SIGTERM], 1e9, []), ([signal.SIGALRM], 0.0, [signal.SIGTERM])],
    ids=["both", "parent"],
)
def test_a_signal_is_handed_on_unless_it_came_to_the_child_as_well(
    told: list[int], same_signal_s: float, sent: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rlrun.engine.processes.waiting_parent.SAME_SIGNAL_S", same_signal_s)
    handed_on: list[int] = []
    monkeypatch.setattr("os.kill", lambda pid, number: handed_on.append(number))
    pipes = [os.pipe(), os.pipe()]
    wait = _Wait(-1, pipes[0][0], pipes[1][0])
    os.write(pipes[0][1], bytes([signal.SIGCHLD, signal.SIGTERM]))
    os.write(pipes[1][1], bytes(told))
    wait._listen()
    wait._forward()
    assert (handed_on, wait._received) == (sent, [])
    for descriptor in (end for pipe in pipes for end in pipe):
        os.close(descriptor)


def test_a_signal_to_the_process_and_then_to_its_group_is_one_signal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rlrun.engine.processes.waiting_parent.SAME_SIGNAL_S", 1e9)
    handed_on: list[int] = []
    monkeypatch.setattr("os.kill", lambda pid, number: handed_on.append(number))
    pipes = [os.pipe(), os.pipe()]
    wait = _Wait(-1, pipes[0][0], pipes[1][0])
    for to_child in ([], [signal.SIGTERM]):  # as timeout(1) does
        os.write(pipes[0][1], bytes([signal.SIGTERM]))
        os.write(pipes[1][1], bytes([signal.SIGALRM, *to_child]))
        wait._listen()
    monkeypatch.setattr("rlrun.engine.processes.waiting_parent.SAME_SIGNAL_S", 0.0)
    wait._forward()
    assert handed_on == [signal.SIGTERM]
    for descriptor in (end for pipe in pipes for end in pipe):
        os.close(descriptor)


def test_an_end_between_the_look_at_the_child_and_the_wait_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    (own, to_own), (from_child, to_parent) = os.pipe(), os.pipe()
    for descriptor in (own, from_child):
        os.set_blocking(descriptor, False)
    child, waitpid, looks = os.fork(), os.waitpid, []
    if not child:
        os._exit(3)
    os.close(to_parent)

    def ends_after_the_first_look(pid: int, options: int) -> tuple[int, int]:
        looks.append(pid)
        if len(looks) > 1:
            return waitpid(pid, options)
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        os.write(to_own, bytes([signal.SIGCHLD]))
        return 0, 0

    monkeypatch.setattr("os.waitpid", ends_after_the_first_look)
    status, announced = _Wait(child, own, from_child).end()
    assert (os.waitstatus_to_exitcode(status), announced) == (3, None)
    for descriptor in (own, to_own, from_child):
        os.close(descriptor)
