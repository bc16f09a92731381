"""What the benchmarks share: parts by name, requirements of venvs, windows, and ratios."""

from __future__ import annotations

from importlib.metadata import version
from itertools import count

import pytest

from benchmarks import peers


def test_the_error_for_an_unknown_part_lists_the_known_parts(capsys: pytest.CaptureFixture[str], wording) -> None:
    parser = peers.parser_of("Measures.", ["fast", "slow", "slow", "ways"], unasked=["ways"])
    assert parser.parse_args([]).only == ["fast", "slow"]
    assert parser.parse_args(["--only", "ways,fast"]).only == ["ways", "fast"]
    with pytest.raises(SystemExit) as ended:
        parser.parse_args(["--only", "quick,slow"])
    assert ended.value.code == 2
    assert capsys.readouterr().err.rpartition("error: ")[2] == wording("quick")


def test_unpinned_packages_get_the_version_that_rlrun_uses() -> None:
    assert peers.same_version("gymnasium[box2d,mujoco]") == f"gymnasium[box2d,mujoco]=={version('gymnasium')}"
    names = {peers.bare_name(package) for packages in peers.VENVS.values() for package in packages}
    assert {"gymnasium", "ray", "torch", "stable-baselines3"} <= names


def test_a_measured_window_starts_at_the_last_result_of_the_warm_up() -> None:
    numbers = count()
    found, clocks = peers.in_window({"warm_up_s": 0.0, "window_s": 0.01}, lambda: next(numbers))
    assert found == list(range(len(found)))
    assert set(clocks) == {"seconds", "cpu_seconds"}
    assert peers.in_window({"warm_up_s": 0.0, "window_s": 0.0}, lambda: next(numbers))[0] == [found[-1] + 1]


def test_rates_are_computed_from_the_differences_between_two_marks() -> None:
    first, last = {"seconds": 1.0, "env_steps": 100}, {"seconds": 3.0, "env_steps": 700}
    assert peers.rates([peers.between(first, last)]) == [300.0]


def test_the_compared_sides_take_turns_and_the_fastest_stretch_of_each_is_reported() -> None:
    said: list[str] = []
    ticks = iter([0.0, 4.0, 4.0, 10.0, 10.0, 12.0, 12.0, 20.0])
    turns = {"one": lambda: said.append("one"), "other": lambda: said.append("other")}
    found = peers.fastest(turns, stretches=2, calls=2, clock=lambda: next(ticks))
    assert said == ["one", "one", "other", "other"] * 2
    assert found == {"one": 1.0, "other": 3.0}


def test_no_side_inherits_the_environment_variable_openblas_coretype(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENBLAS_CORETYPE", "Haswell")
    assert "OPENBLAS_CORETYPE" not in peers.environment()
    assert peers.environment()["OPENBLAS_NUM_THREADS"] == "1"


def test_printed_aims_compare_each_side_with_its_reference(capsys: pytest.CaptureFixture[str], wording) -> None:
    measured = {name: [{"env_steps": rate, "seconds": 1.0}] for name, rate in (("A", 10), ("floor", 60), ("us", 30))}
    peers.print_aims({"A": {}, "us": {"A": 2.5}, "floor": {}}, measured)
    assert capsys.readouterr().out == wording("3.00", "2.5", "2.0")
