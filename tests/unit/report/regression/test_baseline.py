"""A stored regression run and the comparison with it, on curves whose areas are known."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from rlrun.engine.messages.errors import SpecError, UsageError
from rlrun.experiments.runs.run_directory import RunTable
from rlrun.experiments.trial.results import ResultWriter
from rlrun.report.regression.baseline import (
    POINTS,
    Baseline,
    baseline_of,
    compare,
    difference_of_machines,
    read_baseline,
    this_machine,
    write_baseline,
)
from rlrun.report.regression.verdicts import Case, Verdict

Height = Callable[[int], float | None]


def make_verdict(
    run: Path,
    heights: list[Height],
    *,
    steps: int = 1000,
    every: int = 100,
    speed: float = 2000.0,
    executor: str = "local",
    lr: float = 1e-3,
    error: str = "",
) -> Verdict:
    """Writes a run whose seeds have these curves, a row per `every` env steps; returns the verdict on it."""
    cases = []
    for seed, height in enumerate(heights):
        trial = run / f"{seed:03d}"
        trial.mkdir(parents=True)
        writer = ResultWriter(trial)
        for iteration in range(1, steps // every + 1):
            row = {"iteration": iteration, "env_steps": iteration * every, "env_steps_per_s": speed + seed}
            writer.write({**row, "episode_return_mean": height(iteration * every)})
        writer.close()
        cases.append(Case(trial.name, seed, "", trial, steps, 1.0, {"m": 1.0}, {"m": 0.0}, error))
    names = tuple(case.trial for case in cases)
    table = RunTable("pole", "2026-01-01T00:00:00+00:00", "rlrun", executor, (), {"rlrun": "0"}, names)  # type: ignore[arg-type]
    (run / "run.json").write_text(json.dumps(asdict(table)))
    spec = f"pole: {{algorithm: ppo, env: CartPole-v1, stop: {{env_steps: {steps}}}, config: {{lr: {lr}}}}}\n"
    (run / "spec.yaml").write_text(spec)
    return Verdict("pole", tuple(cases), 1)


def ramp(slope: float, offset: float = 0.0) -> Height:
    return lambda steps: offset + slope * steps


def compared(now: Verdict, before: Verdict) -> Verdict:
    (found,) = compare([now], baseline_of([before]), holds_speed=False)
    return found


def test_the_area_of_a_curve_is_its_mean_height_over_the_env_steps_that_both_sides_have(
    tmp_path: Path, wording
) -> None:
    before = make_verdict(tmp_path / "before", [ramp(1.0), ramp(1.0, 10.0)])
    now = make_verdict(tmp_path / "now", [ramp(0.5), ramp(0.5, 10.0)], steps=500)
    area = compared(now, before).area
    assert area is not None
    assert area.before == pytest.approx(305.0)  # from 100 to 500, where the shorter run ends
    assert area.now == pytest.approx(155.0)
    assert area.judgement == "worse"
    assert area.note == wording()


def test_in_a_baseline_comparison_a_seed_that_stopped_early_keeps_its_last_value(tmp_path: Path) -> None:
    before = make_verdict(tmp_path / "before", [ramp(1.0), ramp(1.0)])
    now = make_verdict(tmp_path / "now", [ramp(1.0), ramp(1.0)])
    short = make_verdict(tmp_path / "short", [ramp(1.0)], steps=500).cases[0]
    area = compared(Verdict("pole", (now.cases[0], short), 1), before).area
    assert area is not None
    assert area.now == pytest.approx((550 + (4 * 300 + 5 * 500) / 9) / 2, rel=1e-3)


def test_equal_curves_are_judged_the_same_with_a_change_of_exactly_zero(tmp_path: Path) -> None:
    wiggly = [lambda steps: 100 + steps % 7, lambda steps: 3.3 * (steps % 11)]
    before = make_verdict(tmp_path / "before", wiggly, steps=5000, every=10)
    found = compared(make_verdict(tmp_path / "now", wiggly, steps=5000, every=10), before)
    assert found.area is not None
    assert (found.area.judgement, found.area.change, found.area.note) == ("same", 0.0, "")
    assert found.passed


def test_curves_on_different_grids_can_be_compared(tmp_path: Path) -> None:
    before = make_verdict(tmp_path / "before", [ramp(1.0), ramp(1.0, 2.0)], steps=5000, every=10)
    now = make_verdict(tmp_path / "now", [ramp(1.0), ramp(1.0, 2.0)], steps=5000, every=50)
    area = compared(now, before).area
    assert area is not None
    assert area.change == pytest.approx(0.0, abs=1e-3)


def test_rows_before_the_end_of_the_first_episode_are_left_out_of_a_baseline(tmp_path: Path, wording) -> None:
    late: Height = lambda steps: None if steps < 300 else 7.0  # noqa: E731
    (seed,) = baseline_of([make_verdict(tmp_path / "run", [late])]).experiments["pole"].seeds
    assert (seed.env_steps[0], set(seed.returns)) == (300.0, {7.0})
    silent = make_verdict(tmp_path / "silent", [lambda steps: None])
    found = compared(silent, make_verdict(tmp_path / "before", [late])).area
    assert found is not None
    assert str(found) == wording()


def test_a_failed_trial_is_not_stored_in_a_baseline(tmp_path: Path) -> None:
    failed = make_verdict(tmp_path / "run", [ramp(1.0)], error="the pole broke")
    assert baseline_of([failed]).experiments["pole"].seeds == ()


def test_speed_is_compared_only_between_runs_on_the_same_machine(tmp_path: Path, wording) -> None:
    before = make_verdict(tmp_path / "before", [ramp(1.0)] * 3)
    slow = make_verdict(tmp_path / "slow", [ramp(1.0)] * 3, speed=1000.0)
    speed = compared(slow, before).speed
    assert speed is not None
    assert (speed.judgement, speed.change) == ("worse", pytest.approx(0.5, rel=1e-3))
    assert compared(slow, before).passed
    stored = baseline_of([before])
    (held,) = compare([slow], stored, holds_speed=True)
    assert held.message == wording("2,001", "1,001", "0.5")
    other = stored.replace(machine=stored.machine.replace(cpus=stored.machine.cpus + 1))
    (elsewhere,) = compare([slow], other, holds_speed=True)
    assert elsewhere.passed
    assert elsewhere.speed is not None
    assert elsewhere.speed.note == wording(this_machine().cpus, this_machine().cpus + 1)


def test_speed_is_not_compared_between_different_executors(tmp_path: Path, wording) -> None:
    before = make_verdict(tmp_path / "before", [ramp(1.0)] * 3)
    speed = compared(make_verdict(tmp_path / "now", [ramp(1.0)] * 3, executor="ray"), before).speed
    assert str(speed) == wording()


def test_a_comparison_with_a_baseline_notes_that_the_spec_has_changed(tmp_path: Path, wording) -> None:
    before = make_verdict(tmp_path / "before", [ramp(1.0)] * 3)
    area = compared(make_verdict(tmp_path / "now", [ramp(1.0)] * 3, lr=3e-4), before).area
    assert area is not None
    assert area.note == wording()


def test_an_experiment_that_is_missing_from_the_baseline_is_not_judged_against_it(tmp_path: Path) -> None:
    now = make_verdict(tmp_path / "now", [ramp(1.0)])
    empty = baseline_of([])
    (found,) = compare([now], empty, holds_speed=True)
    assert (str(found.area), str(found.speed)) == ("not in the baseline",) * 2
    assert found.passed


def test_a_baseline_is_unchanged_after_being_written_and_read(tmp_path: Path) -> None:
    stored = baseline_of([make_verdict(tmp_path / "run", [ramp(0.1), ramp(0.2)], steps=5000, every=10)])
    assert [len(seed.env_steps) for seed in stored.experiments["pole"].seeds] == [POINTS, POINTS]
    assert stored.experiments["pole"].passed
    assert stored.experiments["pole"].seeds[1].env_steps_per_s == 2001.0
    write_baseline(tmp_path / "baseline.json", stored)
    assert read_baseline(tmp_path / "baseline.json") == stored


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "does not exist; create it with --save-baseline"),
        ("{", "not a baseline: "),
        ("[]", "not a baseline:\n"),
        ('{"format": 99}', "written by a newer rlrun; update rlrun"),
        ('{"format": 1, "machine": {"cpus": 0}}', "machine.cpus"),
    ],
)
def test_the_error_for_an_invalid_baseline_gives_the_reason(text: str | None, message: str, tmp_path: Path) -> None:
    path = tmp_path / "baseline.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(UsageError) as raised:
        read_baseline(path)
    assert str(raised.value).startswith(str(path))
    assert message in str(raised.value)


def test_differences_between_machines_that_affect_speed_are_named(wording) -> None:
    machine = this_machine().replace(processor="slide rule", cpus=2)
    assert difference_of_machines(machine, machine) == ""
    other = machine.replace(processor="abacus", cpus=3)
    assert difference_of_machines(other, machine) == wording("abacus", "slide rule", "3", "2")


def test_a_baseline_with_nan_is_rejected(tmp_path: Path) -> None:
    data: dict[str, Any] = baseline_of([make_verdict(tmp_path / "run", [ramp(1.0)])]).to_data()
    data["experiments"]["pole"]["seeds"][0]["returns"][0] = float("nan")
    with pytest.raises(SpecError, match="returns"):
        Baseline.parse(data)


def test_a_run_that_learns_from_data_is_compared_by_evaluations_over_its_sgd_steps(tmp_path: Path) -> None:
    verdicts = []
    for name, slope in (("before", 1.0), ("now", 0.5)):
        verdict = make_verdict(tmp_path / name, [ramp(slope), ramp(slope)])
        for file in (tmp_path / name).rglob("result.json"):
            text = file.read_text().replace('"env_steps": ', '"time_this_iter_s": 2.0, "env_steps": 0, "sgd_steps": ')
            file.write_text(text.replace("episode_return_mean", "evaluation/episode_return_mean"))
        verdicts.append(verdict)
    found = compared(verdicts[1], verdicts[0])
    assert found.area is not None
    assert (found.area.before, found.area.now) == (pytest.approx(550.0), pytest.approx(275.0))
    (seed, _) = baseline_of(verdicts[:1]).experiments["pole"].seeds
    assert (seed.env_steps, seed.steps[0], seed.env_steps_per_s, seed.sgd_steps_per_s) == ((), 100, None, 50)
    write_baseline(tmp_path / "baseline.json", baseline_of(verdicts[:1]))
    assert read_baseline(tmp_path / "baseline.json").experiments == baseline_of(verdicts[:1]).experiments
