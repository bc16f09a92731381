"""What `rlrun doctor` finds out without starting anything."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import pytest

from rlrun.cli.machine import Finding, findings


def ports(runs_dir: Path) -> Finding:
    return next(finding for finding in findings(runs_dir, start_ray=False) if finding.subject == "ports")


def test_doctor_tells_that_processes_can_listen(tmp_path: Path) -> None:
    assert ports(tmp_path).verdict == "ok"


def test_doctor_tells_what_to_do_where_no_process_may_listen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> socket.socket:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr("rlrun.cli.machine.socket.create_server", refuse)
    found = ports(tmp_path)
    assert (found.verdict, found.value) == ("note", "none on 127.0.0.1: Operation not permitted")
    assert "num_workers: 0" in found.advice
