"""Findings of `rlrun doctor` without starting anything."""

from __future__ import annotations

import re
import socket
import tomllib
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from rlrun.cli import machine
from rlrun.cli.machine import EXTRAS, CheckResult, findings
from rlrun.cli.main import cli


def ports(runs_dir: Path) -> CheckResult:
    return next(
        finding for finding in findings(runs_dir, compile_update=False, start_ray=False) if finding.subject == "ports"
    )


def test_doctor_does_not_compile_an_update_unless_asked_to(tmp_path: Path, wording) -> None:
    found = findings(tmp_path, compile_update=False, start_ray=False)
    (updates,) = (finding for finding in found if finding.subject == "compiled updates")
    assert (updates.verdict, updates.advice) == ("note", wording())


def test_doctor_reports_that_processes_can_listen_on_a_port(tmp_path: Path) -> None:
    assert ports(tmp_path).verdict == "ok"


def test_doctor_gives_advice_if_processes_cannot_listen_on_a_port(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wording
) -> None:
    def refuse(*_: Any) -> socket.socket:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr("rlrun.cli.machine.socket.create_server", refuse)
    found = ports(tmp_path)
    assert (found.verdict, found.value) == ("note", wording("127.0.0.1"))
    assert "num_workers: 0" in found.advice


@pytest.mark.parametrize("lacking", ["no C compiler was found", ""], ids=["no kernels", "kernels"])
def test_doctor_reports_whether_results_depend_on_the_processor(lacking: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rlrun.engine.kernels.library.why_no_library", lambda: lacking)
    kernels, results = machine._kernels()
    assert (kernels.subject, results.subject) == ("C kernels", "results")
    assert (kernels.verdict, results.verdict) == (("note", "note") if lacking else ("ok", "ok"))
    assert ("depend on processor" in results.value) is (lacking != "")


def test_doctor_checks_every_declared_extra() -> None:
    declared = tomllib.loads(Path("pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert set(EXTRAS) == {*declared} - {"dev"}


def test_the_columns_of_doctor_are_always_separated_by_spaces(monkeypatch: pytest.MonkeyPatch) -> None:
    subjects = [*(f"extra {name}" for name in EXTRAS), "compiled updates"]
    found = [CheckResult(subject, "ok", "installed") for subject in subjects]
    monkeypatch.setattr(machine, "findings", lambda runs_dir, compile_update, start_ray: found)
    lines = CliRunner().invoke(cli, ["doctor"]).stdout.splitlines()
    assert [re.split("  +", line) for line in lines] == [["ok", subject, "installed"] for subject in subjects]


def test_a_check_that_takes_too_long_is_stopped_and_reported() -> None:
    assert machine._problem_of("import time; time.sleep(600)", timeout_s=0.01) == machine.NOT_FINISHED
    assert machine._problem_of("raise ValueError('no header')", timeout_s=60) == "ValueError: no header"


@pytest.mark.parametrize(
    ("cpuinfo", "expected"),
    [
        ("flags\t\t: fpu avx512f avx512_bf16 amx_bf16", ("ok", "avx512_bf16, amx_bf16: precision: bfloat16 is fast")),
        ("Features\t: fp asimd bf16", ("ok", "bf16: precision: bfloat16 is fast")),
        ("flags\t\t: fpu avx2", ("note", "no avx512_bf16, amx_bf16, bf16")),
        ("processor\t: 0", None),
    ],
)
def test_doctor_reports_the_cpu_instructions_for_bfloat16(
    cpuinfo: str, expected: tuple[str, str] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "_lines", lambda path: cpuinfo.splitlines())
    found = [(finding.verdict, finding.value) for finding in machine._bfloat16()]
    assert [verdict for verdict, _ in found] == ([] if expected is None else [expected[0]])
    assert all(value.startswith(expected[1]) for _, value in found if expected is not None)
