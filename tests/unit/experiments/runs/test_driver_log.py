"""A run's output goes to its log, at the level of file descriptors, and the terminal is restored."""

import os
import resource
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from rlrun.experiments.runs.driver_log import DriverLog


def write_everywhere(word: str) -> None:
    print(f"print {word}")
    sys.stderr.write(f"stderr {word}\n")
    os.write(1, f"descriptor 1 {word}\n".encode())
    os.write(2, f"descriptor 2 {word}\n".encode())
    subprocess.run(["sh", "-c", f"echo child {word}"], check=True)


def test_everything_printed_is_written_to_the_log_file_and_nothing_to_the_terminal(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    log = DriverLog()
    log.send_to(tmp_path / "driver.log")
    write_everywhere("inside")
    log.close()
    print("after")

    out, err = capfd.readouterr()
    assert (out, err) == ("after\n", "")
    assert sorted((tmp_path / "driver.log").read_text().splitlines()) == [
        "child inside",
        "descriptor 1 inside",
        "descriptor 2 inside",
        "print inside",
        "stderr inside",
    ]


def test_the_live_view_can_still_write_to_the_terminal(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    log = DriverLog()
    log.send_to(tmp_path / "driver.log")
    log.terminal.write("progress\n")
    log.close()

    assert capfd.readouterr().out == "progress\n"
    assert (tmp_path / "driver.log").read_text() == ""


def test_output_of_a_watcher_goes_to_the_terminal_and_not_to_the_log(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    log = DriverLog()
    log.send_to(tmp_path / "driver.log")
    with log.printing_to_terminal():
        print("to the user")
        sys.stderr.write("a warning\n")
    print("to the log")
    log.close()

    out, err = capfd.readouterr()
    assert (out, err) == ("to the user\n", "a warning\n")
    assert (tmp_path / "driver.log").read_text() == "to the log\n"


def test_output_of_other_threads_goes_to_the_log_while_a_watcher_prints(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], wording
) -> None:
    log = DriverLog()
    log.send_to(tmp_path / "driver.log")
    with log.printing_to_terminal():
        thread = threading.Thread(target=print, args=["Ray: a raylet was killed"])
        thread.start()
        thread.join()
        print("to the user")
    log.close()

    assert capfd.readouterr().out == "to the user\n"
    assert (tmp_path / "driver.log").read_text() == wording()


def test_a_second_experiment_gets_a_log_of_its_own(tmp_path: Path) -> None:
    log = DriverLog()
    log.send_to(tmp_path / "first.log")
    write_everywhere("one")
    log.send_to(tmp_path / "second.log")
    write_everywhere("two")
    log.close()

    assert all(line.endswith("one") for line in (tmp_path / "first.log").read_text().splitlines())
    assert len((tmp_path / "second.log").read_text().splitlines()) == 5


def test_a_resumed_run_appends_to_its_log(tmp_path: Path) -> None:
    for word in ("before", "after"):
        log = DriverLog()
        log.send_to(tmp_path / "driver.log")
        print(word)
        log.close()

    assert (tmp_path / "driver.log").read_text() == "before\nafter\n"


def test_closing_a_log_restores_the_streams_and_leaks_no_file_descriptors(tmp_path: Path) -> None:
    streams = (sys.stdout, sys.stderr)
    before = len(os.listdir("/dev/fd"))
    log = DriverLog()
    log.send_to(tmp_path / "driver.log")
    log.close()
    log.close()

    assert (sys.stdout, sys.stderr) == streams
    assert len(os.listdir("/dev/fd")) == before


def test_a_full_disk_loses_output_but_raises_no_error(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    with DriverLog() as log:
        log.send_to(tmp_path / "driver.log")
        print("kept")
        resource.setrlimit(resource.RLIMIT_FSIZE, (5, hard))
        try:
            print("lost")
            sys.stdout.write("lost as well")
            log.close()
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    print("heard")
    assert capfd.readouterr().out == "heard\n"
    assert (tmp_path / "driver.log").read_text() == "kept\n"


def test_without_a_log_file_the_streams_are_unchanged(capfd: pytest.CaptureFixture[str]) -> None:
    log = DriverLog()
    with log.printing_to_terminal():
        print("plain")
    log.close()

    assert log.terminal is sys.stdout
    assert capfd.readouterr().out == "plain\n"
