"""Progress of trials: shares, time left, lines."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest

from rlrun.cli.live import LiveView
from rlrun.cli.progress import PlainLines, TrialProgress, summary
from rlrun.tune.events import TrialEvent


def trial_with(stop: dict[str, float], **result: Any) -> TrialProgress:
    trial = TrialProgress("000-seed=0", stop)
    trial.observe(TrialEvent("000-seed=0", "RUNNING", result), now=0.0)
    return trial


def test_share_is_that_of_the_nearest_steady_stop() -> None:
    trial = trial_with({"env_steps": 1000, "iteration": 4, "episode_return_mean": 475}, env_steps=100, iteration=2)
    assert trial.share == 0.5


def test_a_return_alone_gives_no_share_and_no_time_left() -> None:
    trial = trial_with({"episode_return_mean": 475}, env_steps=100, episode_return_mean=470.0)
    trial.observe(TrialEvent("000-seed=0", "RUNNING", {"env_steps": 200}), now=1.0)
    assert trial.share == 0.0
    assert trial.seconds_left(1.0) is None


def test_time_left_goes_by_the_pace_since_the_first_result() -> None:
    trial = trial_with({"env_steps": 1000}, env_steps=100)
    assert trial.seconds_left(0.0) is None
    trial.observe(TrialEvent("000-seed=0", "RUNNING", {"env_steps": 400}), now=3.0)
    assert trial.seconds_left(3.0) == pytest.approx(6.0)
    assert trial.seconds_left(5.0) == pytest.approx(4.0)
    assert trial.seconds_left(60.0) == 0.0


def test_best_keeps_the_highest_mean_and_skips_missing_ones() -> None:
    trial = trial_with({"env_steps": 1000}, env_steps=1, episode_return_mean=None)
    for mean in (20.0, 50.0, None, 30.0):
        trial.observe(TrialEvent("000-seed=0", "RUNNING", {"env_steps": 2, "episode_return_mean": mean}), now=1.0)
    assert trial.best == 50.0


def test_a_line_says_steps_return_speed_and_time_left() -> None:
    trial = trial_with({"env_steps": 10_000}, env_steps=2048)
    result = {"env_steps": 4096, "episode_return_mean": 31.25, "env_steps_per_s": 12_345.6}
    trial.observe(TrialEvent("000-seed=0", "RUNNING", result), now=1.0)
    expected = "000-seed=0: 4,096 of 10,000 env steps, return 31.2, 12,346 steps/s, 3 s left"
    assert trial.line(1.0) == expected


def test_a_summary_counts_statuses_and_names_the_leader() -> None:
    trials = [TrialProgress("a", {}, status="RUNNING", best=3.0), TrialProgress("b", {}, best=None)]
    trials.append(TrialProgress("c", {}, status="TERMINATED", best=9.5))
    assert summary(trials) == "3 trials, 1 running, 1 pending, 1 terminated, best return 9.5 (c)"


def test_plain_lines_show_the_first_and_the_last_result_and_hold_back_those_between() -> None:
    written: list[str] = []
    trial = TrialProgress("a", {"env_steps": 100})
    lines = PlainLines({"a": trial}, written.append)
    lines_of_events = [
        TrialEvent("a", "RUNNING"),
        TrialEvent("a", "RUNNING", {"env_steps": 10}),
        TrialEvent("a", "RUNNING", {"env_steps": 50}),
        TrialEvent("a", "RUNNING", {"env_steps": 100}),
        TrialEvent("a", "TERMINATED"),
    ]
    for event in lines_of_events:
        trial.observe(event, now=0.0)
        lines.show(trial)
    assert written == [
        "a: 10 of 100 env steps, return -",
        "a: 100 of 100 env steps, return - [terminated]",
    ]


def test_plain_lines_come_at_intervals() -> None:
    written: list[str] = []
    trial = trial_with({}, env_steps=10)
    lines = PlainLines({"a": trial, "b": TrialProgress("b", {})}, written.append, every_s=0.0)
    lines.show(trial)
    lines.show(trial)
    assert written == ["000-seed=0: 10 env steps, return -", "2 trials, 1 running, 1 pending"]


def test_a_trial_that_fails_before_its_first_result_has_a_line() -> None:
    written: list[str] = []
    trial = TrialProgress("a", {})
    trial.observe(TrialEvent("a", "ERROR", error="no such env"), now=0.0)
    PlainLines({"a": trial}, written.append).show(trial)
    assert written == ["a: [error]"]


@pytest.mark.parametrize("columns", [20, 40, 60, 80, 120, 200])
def test_the_live_view_fits_the_terminal(columns: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("LINES", "10")
    trials = {}
    for number in range(30):
        name = f"{number:03d}-lr=0.001-seed={number}"
        trials[name] = TrialProgress(name, {"env_steps": 1_000_000})
        result = {"env_steps": 500_000, "episode_return_mean": 123.4, "env_steps_per_s": 98_765.0}
        trials[name].observe(TrialEvent(name, "RUNNING", result), now=0.0)
    stream = io.StringIO()
    view = LiveView("cartpole-ppo: 30 trials", trials, stream, uses_ray=True)
    view.show(trials["000-lr=0.001-seed=0"])
    view.say("SIGINT: saving and stopping")
    view.close()
    lines = stream.getvalue().splitlines()
    assert lines
    assert max(map(len, lines)) <= columns
