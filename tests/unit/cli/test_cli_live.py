"""The table of a run's trials on a terminal."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from rlrun.cli.live_view import LiveView, drawn_trial
from rlrun.cli.run_progress import RunProgress
from rlrun.cli.trial_progress import TrialProgress, display_order
from rlrun.cli.trial_table import columns_of, drawn_run, fitting_columns, text_table
from rlrun.experiments.runs.events import RunResources, TrialEvent


def sweep(trials: int, running: int = 0, paused: int = 0, ended: int = 0) -> RunProgress:
    """Makes a run whose first trials have ended in order; the next trials are running, and the next are paused."""
    run = RunProgress({})
    for number in range(trials):
        name = f"{number:03d}-lr=0.001-seed={number % 2}"
        params = {"lr": 0.001 * (1 + number // 2), "relu": True}
        run.trials[name] = TrialProgress(name, {"env_steps": 1_000_000}, params, number % 2, number // 2)
    for number, name in enumerate(list(run.trials)[: ended + running + paused]):
        result = {"iteration": 7, "env_steps": 500_000, "episode_return_mean": 123.4, "env_steps_per_s": 98_765.0}
        run.observe(TrialEvent(name, "RUNNING", result, place=f"host:{number}"), float(number))
        status = "TERMINATED" if number < ended else "RUNNING" if number < ended + running else "PAUSED"
        run.observe(TrialEvent(name, status), float(number))
    return run


def drawn_lines(run: RunProgress, width: int, height: int) -> list[str]:
    stream = io.StringIO()
    console = Console(file=stream, width=width, height=height, color_system=None)
    console.print(drawn_run(run, "sweep on Ray: 5 s", "runs/sweep", 0.0, console))
    return [line.rstrip() for line in stream.getvalue().splitlines()]


def test_a_wide_terminal_shows_everything(wording) -> None:
    run = sweep(3, running=1, ended=1)
    run.resources = RunResources(1.0, 2.0, 0.0, 0.0)
    assert drawn_lines(run, 160, 24) == wording("runs/sweep", "steps/s", "host:1")


def test_on_a_narrow_terminal_columns_are_omitted_but_the_return_is_kept(wording) -> None:
    run = sweep(3, running=1)
    assert drawn_lines(run, 50, 24)[1:3] == wording("0.001", "500,000", "123.4")
    assert drawn_lines(run, 22, 24)[1:3] == ["trial  status   return", "000    RUNNING   123.4"]


@pytest.mark.parametrize("width", [20, 40, 60, 80, 120, 200])
@pytest.mark.parametrize("height", [4, 10, 24, 100])
@pytest.mark.parametrize("trials", [1, 300])
def test_the_live_table_fits_terminals_of_any_size(width: int, height: int, trials: int) -> None:
    lines = drawn_lines(sweep(trials, running=min(20, trials), paused=trials // 10, ended=trials // 10), width, height)
    assert max(map(len, lines)) <= width
    assert len(lines) <= max(height - 1, 5)


def test_trials_are_listed_in_the_order_running_then_paused_then_most_recently_ended(wording) -> None:
    run = sweep(300, running=2, paused=2, ended=50)
    numbers = [line.split()[0] for line in drawn_lines(run, 80, 13)[2:-2]]
    assert numbers == ["050", "051", "052", "053", "049", "048", "047", "046"]
    assert drawn_lines(run, 80, 13)[-2] == wording("300", "246", "50")
    assert len(display_order(run.trials.values())) == 54


def test_a_single_trial_is_shown_with_its_full_name() -> None:
    assert drawn_lines(sweep(1, running=1), 200, 24)[2].startswith("000-lr=0.001-seed=0  RUNNING")


def test_empty_columns_are_omitted(wording) -> None:
    run = RunProgress({"a": TrialProgress("a", {"episode_return_mean": 10.0}, status="RUNNING")})
    assert text_table(columns_of(run, list(run.trials.values()), 0.0)) == wording()


def test_values_of_settings_that_are_too_long_are_cut(wording) -> None:
    trial = TrialProgress("000-x", {}, {"hiddens": [64] * 20}, status="RUNNING")
    (column,) = [each for each in columns_of(RunProgress({"a": trial}), [trial], 0.0) if each.heading == "hiddens"]
    assert column.cells == wording("64")
    assert [each.heading for each in fitting_columns([column], 5)] == []


@pytest.mark.parametrize("columns", [20, 80, 200])
def test_the_live_view_fits_the_terminal_and_prints_messages_above_itself(
    columns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("LINES", "10")
    run = sweep(30, running=30)
    stream = io.StringIO()
    view = LiveView("sweep on Ray", "runs/sweep", run, stream, uses_ray=True)
    view.show(next(iter(run.trials.values())))
    view.say("SIGINT: stopping")
    view.close()
    lines = stream.getvalue().splitlines()
    assert "SIGINT: stopping" in lines
    assert max(map(len, lines)) <= columns


ROW = {
    "iteration": 7,
    "env_steps": 500_000,
    "episodes": 90,
    "episode_return_mean": 123.4,
    "episode_len_mean": 61.5,
    "env_steps_per_s": 98_765.0,
    "time_this_iter_s": 2.0,
    "time/TrainOnBatch_s": 1.5,
    "time/evaluation_s": 0.25,
    "learner/lr": 0.0003,
    "learner/entropy": 0.57,
    "learner/kl": 0.01,
    "learner/explained_variance": 0.875,
    "learner/policy_loss": -0.02,
    "learner/value_loss": 18.1,
    "time/MergeFilters_s": 0.0001,
}


def lone_run(**more: float | None) -> RunProgress:
    """Makes a run of one trial whose return grows from 0 to 123.4; its last row also has other values."""
    run = RunProgress({"000-seed=0": TrialProgress("000-seed=0", {"env_steps": 1_000_000})})
    for share in (0.0, 0.25, 0.5, 1.0):
        row = {**ROW, "env_steps": int(500_000 * share), "episode_return_mean": 123.4 * share, **more}
        run.observe(TrialEvent("000-seed=0", "RUNNING", row), 100.0 * share)
    return run


def screen(run: RunProgress, width: int, height: int = 30, encoding: str = "utf-8") -> list[str]:
    stream = io.TextIOWrapper(io.BytesIO(), encoding=encoding, newline="")
    console = Console(file=stream, width=width, height=height, color_system=None)
    (trial,) = run.trials.values()
    console.print(drawn_trial(trial, run.metrics, "pole: 5 s, in runs/pole", 100.0, console))
    stream.seek(0)
    return [line.rstrip() for line in stream.read().splitlines()]


def test_the_screen_of_a_single_trial_shows_its_returns_its_learner_and_its_time(wording) -> None:
    assert screen(lone_run(**{"evaluation/episode_return_mean": 150.0}), 80) == wording("123.4", "150.0", "50%")


def test_on_a_narrow_ascii_terminal_the_screen_has_more_lines_and_no_curves(wording) -> None:
    assert screen(lone_run(), 40, encoding="ascii") == wording("123.4", "500,000", "50%")


@pytest.mark.parametrize("width", [10, 20, 40, 80, 200])
@pytest.mark.parametrize("height", [2, 6, 40])
def test_the_screen_of_a_single_trial_fits_any_terminal(width: int, height: int) -> None:
    row = {"evaluation/episode_return_mean": None, "policies/left/learner/policy_loss": 1e-9, "learner/\x1b[2Jx": 1.0}
    lines = screen(lone_run(**row), width, height)
    assert max(map(len, lines)) <= width
    assert len(lines) <= max(1, height - 1)
    assert "\x1b" not in "".join(lines)


def test_a_metric_missing_from_an_iteration_is_shown_with_its_last_value() -> None:
    run = lone_run(**{"evaluation/episode_return_mean": 150.0})
    run.observe(TrialEvent("000-seed=0", "RUNNING", {"evaluation/episode_return_mean": None}), 101.0)
    assert "evaluation  150.0     ▁▁▁▁" in screen(run, 80)


def test_metrics_for_the_single_trial_screen_are_not_kept_for_a_run_of_several_trials() -> None:
    run = sweep(2, running=2)
    assert run.metrics.last == {}


def test_the_live_view_of_a_single_trial_shows_its_screen_after_the_first_result(
    monkeypatch: pytest.MonkeyPatch, wording
) -> None:
    for name, value in {"COLUMNS": "80", "LINES": "30", "FORCE_COLOR": "1"}.items():
        monkeypatch.setenv(name, value)
    run, stream = RunProgress({"000": TrialProgress("000", {"env_steps": 1_000_000})}), io.StringIO()
    view = LiveView("pole", "runs/pole", run, stream, uses_ray=True)
    before = stream.getvalue()
    view.show(run.observe(TrialEvent("000", "RUNNING", ROW), 1.0))
    view.close()
    assert ("in runs/pole" in before, "learner" in before) == (True, False)
    assert wording("policy_loss", "value_loss", "-0.02") in stream.getvalue().splitlines()
