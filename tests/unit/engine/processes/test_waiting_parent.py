"""A command's parent exits like the command, passes signals on, and recognizes an unexpected end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from rlrun.engine.processes.waiting_parent import FORWARDED, _Wait

BEGIN = """
import os, signal, sys
from pathlib import Path
from rlrun.engine.processes import waiting_parent
from rlrun.engine.processes.restart_note import directories_to_continue, leave_note
from rlrun.engine.processes.signals import listen
from rlrun.engine.processes.waiting_parent import UnexpectedEnd, continue_in_child, die_by
listen()
waiting_parent.FIRST_PAUSE_S = float(os.environ.get("PAUSE_S", "0.01"))
try:
    announce = continue_in_child(restarts=True)
except UnexpectedEnd as end:
    print(*directories_to_continue(), end, flush=True)
    if end.code < 0:
        die_by(-end.code)
    sys.exit(4)
"""


def begun(program: str, *arguments: str) -> subprocess.Popen[str]:
    """Starts a program in its own session, after the fork."""
    command = [sys.executable, "-c", BEGIN + program, *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)


@pytest.mark.parametrize(
    ("program", "code", "told"),
    [
        ("announce(0)", 0, ""),
        ("announce(3); sys.exit(3)", 3, ""),
        ("announce(4); os._exit(0)  # as an exit function may", 4, ""),
        ("announce(0); sys.exit(120)  # as when stdout cannot be written at the end", 120, ""),
        ("os._exit(0)", 4, "ended with exit code 0 during the command\n"),
        ("os._exit(5)", 4, "ended with exit code 5 during the command\n"),
        ("announce(0); os.kill(os.getpid(), signal.SIGSEGV)", -signal.SIGSEGV, "was killed by SIGSEGV\n"),
    ],
)
def test_the_parent_exits_with_the_childs_code_and_reports_an_unannounced_end(
    program: str, code: int, told: str
) -> None:
    process = begun(program)
    out, _ = process.communicate()
    assert (process.returncode, out) == (code, told)


DIES = """
past = len(directories_to_continue())
print("begins", past, flush=True)
leave_note(2, [Path("a"), Path("b")])
if past:
    leave_note(9, [])  # only the first process's counts
"""


@pytest.mark.parametrize(
    ("end", "code", "told"),
    [("os.kill(os.getpid(), signal.SIGKILL)", -9, "was killed by SIGKILL"), ("os._exit(1)", 4, "ended with exit")],
)
def test_a_child_that_leaves_a_note_and_dies_is_restarted_up_to_a_limit(end: str, code: int, told: str) -> None:
    process = begun(DIES + end)
    out, err = process.communicate()
    *starts, last = out.splitlines()
    assert starts == ["begins 0", "begins 2", "begins 2"]
    assert last.startswith(f"a b {told}")
    assert process.returncode == code
    assert [line.partition("; restart ")[2].partition(" begins")[0] for line in err.splitlines()] == [
        "1 of 2",
        "2 of 2",
    ]


@pytest.mark.parametrize("end", ["announce(4); os._exit(4)", "announce(4); os.kill(os.getpid(), signal.SIGKILL)"])
def test_a_child_that_announces_its_end_is_not_restarted(end: str) -> None:
    assert "begins 2" not in begun(DIES + end).communicate()[0]


def test_a_child_that_dies_after_an_interrupt_is_not_restarted() -> None:
    process = begun(
        DIES
        + """
import time
signal.signal(signal.SIGTERM, lambda *_: os.kill(os.getpid(), signal.SIGKILL))
print("waits", flush=True)
while True:
    time.sleep(0.01)
"""
    )
    assert process.stdout is not None
    assert [process.stdout.readline() for _ in range(2)] == ["begins 0\n", "waits\n"]
    process.send_signal(signal.SIGTERM)
    assert "begins" not in process.communicate()[0]
    assert process.returncode == -signal.SIGKILL


def test_processes_left_by_a_dead_child_are_gone_before_the_next_child_starts(tmp_path: Path) -> None:
    process = begun(
        DIES
        + """
import subprocess, time
left = Path(sys.argv[1])
if past:
    pid = left.read_text().split()[-1]
    print("left" if os.path.exists(f"/proc/{pid}") else "gone", flush=True)
    announce(0)
    sys.exit(0)
# A child that is left by its own parent, in a session of its own, as daemons are.
begin = ["sh", "-c", f"setsid sh -c 'echo $$ > {left}.new; mv {left}.new {left}; exec sleep 1000' & exit 0"]
while True:
    subprocess.run(begin, stdout=subprocess.DEVNULL)
    while not left.exists():
        time.sleep(0.01)
    pid = left.read_text().strip()
    # Before the parent has read the note, it adopts no orphans, and process 1 does.
    if int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1]) == os.getppid():
        break
    os.kill(int(pid), signal.SIGKILL)
    left.unlink()
os.kill(os.getpid(), signal.SIGKILL)
""",
        str(tmp_path / "left"),
    )
    assert process.communicate()[0].splitlines() == ["begins 0", "begins 2", "gone"]


def test_an_interrupt_between_the_end_of_a_child_and_its_restart_ends_the_command(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PAUSE_S", "1000")
    process = begun(DIES + "os._exit(1)")
    assert process.stderr is not None
    assert "1 of 2" in process.stderr.readline()
    process.send_signal(signal.SIGINT)
    out, err = process.communicate()
    assert out == "begins 0\n"
    assert err.rstrip().endswith("KeyboardInterrupt")


# signal.pause() is not used here: if the signal came right before the call, pause() would wait for another one.
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
def test_a_signal_sent_only_to_the_parent_reaches_the_child(number: signal.Signals) -> None:
    process = begun(PAUSED)
    assert process.stdout is not None
    assert int(process.stdout.readline()) != process.pid
    process.send_signal(number)
    process.communicate()
    assert process.returncode == 130


def test_killing_the_parent_also_ends_the_child() -> None:
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
def test_a_signal_is_forwarded_unless_the_child_received_it_too(
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


def test_a_signal_to_the_process_and_then_to_its_group_is_treated_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rlrun.engine.processes.waiting_parent.SAME_SIGNAL_S", 1e9)
    handed_on: list[int] = []
    monkeypatch.setattr("os.kill", lambda pid, number: handed_on.append(number))
    pipes = [os.pipe(), os.pipe()]
    wait = _Wait(-1, pipes[0][0], pipes[1][0])
    for to_child in ([], [signal.SIGTERM]):  # like timeout(1)
        os.write(pipes[0][1], bytes([signal.SIGTERM]))
        os.write(pipes[1][1], bytes([signal.SIGALRM, *to_child]))
        wait._listen()
    monkeypatch.setattr("rlrun.engine.processes.waiting_parent.SAME_SIGNAL_S", 0.0)
    wait._forward()
    assert handed_on == [signal.SIGTERM]
    for descriptor in (end for pipe in pipes for end in pipe):
        os.close(descriptor)


def test_the_end_of_a_child_between_the_check_and_the_wait_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
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
