"""Progress of trials: shares, time left, lines."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from threading import Event
from typing import Any

import pytest

from rlrun.cli.run_progress import RunProgress
from rlrun.cli.trial_progress import OUTCOME_METRICS, TrialProgress
from rlrun.cli.trial_table import columns_of
from rlrun.cli.watch import PlainLines
from rlrun.experiments.runs.events import RunResources, TrialEvent
from rlrun.experiments.trial.stop_criteria import stop_reached


def trial_with(stop: dict[str, float], **result: Any) -> TrialProgress:
    trial = TrialProgress("000-seed=0", stop)
    trial.observe(TrialEvent("000-seed=0", "RUNNING", result), now=0.0)
    return trial


def test_the_share_done_is_measured_by_the_nearest_stop_criterion_that_advances_steadily() -> None:
    trial = trial_with({"env_steps": 1000, "iteration": 4, "episode_return_mean": 475}, env_steps=100, iteration=2)
    assert trial.share == 0.5


def test_a_stop_by_return_alone_gives_no_estimate_of_the_share_done_or_the_time_left() -> None:
    trial = trial_with({"episode_return_mean": 475}, env_steps=100, episode_return_mean=470.0)
    trial.observe(TrialEvent("000-seed=0", "RUNNING", {"env_steps": 200}), now=1.0)
    assert trial.share == 0.0
    assert trial.seconds_left(1.0) is None


def test_time_left_is_estimated_from_the_pace_after_the_first_two_iterations() -> None:
    trial = trial_with({"env_steps": 1000}, env_steps=50, iteration=1, time_total_s=30.0)
    assert trial.seconds_left(-30.0) is None
    trial.observe(TrialEvent("000-seed=0", "RUNNING", {"env_steps": 100, "iteration": 2, "time_total_s": 60.0}), 0.0)
    assert trial.seconds_left(0.0) is None
    trial.observe(TrialEvent("000-seed=0", "RUNNING", {"env_steps": 400}), now=3.0)
    assert trial.seconds_left(3.0) == pytest.approx(6.0)
    assert trial.seconds_left(5.0) == pytest.approx(4.0)
    assert trial.seconds_left(60.0) == 0.0


def test_the_best_return_of_a_trial_is_its_highest_mean_and_missing_means_are_skipped() -> None:
    trial = trial_with({"env_steps": 1000}, env_steps=1, episode_return_mean=None)
    for mean in (20.0, 50.0, None, 30.0):
        trial.observe(TrialEvent("000-seed=0", "RUNNING", {"env_steps": 2, "episode_return_mean": mean}), now=1.0)
    assert trial.best == 50.0


def test_a_progress_line_shows_steps_return_speed_and_time_left() -> None:
    trial = trial_with({"env_steps": 10_000}, env_steps=1024)
    trial.observe(TrialEvent("000-seed=0", "RUNNING", {"env_steps": 2048}), now=0.0)
    result = {"env_steps": 4096, "episode_return_mean": 31.25, "env_steps_per_s": 12_345.6}
    trial.observe(TrialEvent("000-seed=0", "RUNNING", result), now=1.0)
    expected = "000-seed=0: 4,096 of 10,000 env steps, return 31.2, 12,346 steps/s, 3 s left"
    assert trial.line(1.0) == expected


def test_the_progress_line_of_an_ended_trial_shows_its_stop_reason(wording) -> None:
    trial = trial_with({"env_steps": 1000, "episode_return_mean": 475}, env_steps=900, episode_return_mean=480.25)
    assert "475" not in trial.line(0.0)
    reason = stop_reached(trial.stop, trial.result or {})
    assert reason is not None
    trial.observe(TrialEvent("000-seed=0", "TERMINATED", stop_reason=reason), now=1.0)
    assert trial.line(1.0) == wording("terminated", "480.25", ">= 475")
    early = TrialProgress("early", {})
    early.observe(TrialEvent("early", "TERMINATED", stopped_by="asha: worse", stop_reason="asha: worse"), 1.0)
    assert early.line(1.0) == wording("stopped", "asha: worse")


def test_a_success_rate_used_as_stop_criterion_stays_displayed_until_the_next_evaluation() -> None:
    rate = "evaluation/info/is_success"
    trial = TrialProgress("000-seed=0", {"env_steps": 1000, rate: 0.9}, judged_by=rate)
    run = run_of(trial)
    for row in ({rate: 0.25}, {}, {rate: None}):
        row = {"env_steps": 64, "episode_return_mean": 20.0, **row}
        run.observe(TrialEvent("000-seed=0", "RUNNING", row), now=0.0)
    assert ", is_success 0.25" in trial.line(0.0)
    columns = {column.heading: column.cells for column in columns_of(run, [trial], 2.0)}
    assert (columns["return"], columns["is_success"]) == (["20.0"], ["0.25"])
    assert run.metrics.curves[rate] == [0.25]


WON, DRAWN, LOST = OUTCOME_METRICS.values()


def test_the_progress_of_a_trial_of_games_shows_its_last_outcomes_instead_of_returns(wording) -> None:
    trial = TrialProgress("000-seed=0", {}, judged_by="evaluation/against/unbeaten_rate")
    trial.observe(TrialEvent("000-seed=0", "RUNNING", {"env_steps": 64, "episode_return_mean": 0.0}), now=0.0)
    assert trial.line(0.0) == wording("64 env steps")  # there is no evaluation yet
    outcomes = {WON: 0.5, DRAWN: 0.125, LOST: 0.375}
    trial.observe(TrialEvent("000-seed=0", "RUNNING", {"env_steps": 128, "episode_return_mean": 0.0, **outcomes}), 1.0)
    between = {"env_steps": 192, "episode_return_mean": 0.0, **dict.fromkeys(outcomes)}
    trial.observe(TrialEvent("000-seed=0", "RUNNING", between), 2.0)
    assert trial.line(2.0) == wording("192 env steps", "won 0.5", "drawn 0.125", "lost 0.375")
    run = run_of(trial)
    columns = {column.heading: column.cells for column in columns_of(run, [trial], 2.0)}
    assert {heading: columns[heading] for heading in OUTCOME_METRICS} == {
        "won": ["0.5"],
        "drawn": ["0.125"],
        "lost": ["0.375"],
    }
    assert "return" not in columns
    assert run.newest_text() in trial.line(2.0)


def test_the_summary_shows_the_newest_returns_of_running_trials(wording) -> None:
    trials = [TrialProgress(name, {}, judged_by="evaluation/episode_return_mean") for name in "abc"]
    run = run_of(*trials)
    assert run.newest_text() == ""
    run.observe(TrialEvent("a", "RUNNING", {"env_steps": 64, "episode_return_mean": 21.5}), 0.0)
    assert run.newest_text() == "return 21.5"
    run.observe(TrialEvent("b", "RUNNING", {"env_steps": 64, "episode_return_mean": 18.0}), 0.0)
    assert run.summary(0.0) == wording("18", "21.5")
    run.observe(TrialEvent("b", "TERMINATED"), 0.0)
    assert run.newest_text() == "return 21.5"


def test_the_progress_of_a_run_without_env_steps_is_shown_in_sgd_steps(wording) -> None:
    trial = trial_with(
        {"sgd_steps": 900}, env_steps=0, sgd_steps=30, iteration=1, env_steps_per_s=0.0, time_total_s=0.5
    )
    assert trial.line(0.0) == wording("steps/s", "000", "30")
    columns = {column.heading: column.cells for column in columns_of(RunProgress({"t": trial}), [trial], 0.0)}
    assert (columns["SGD steps"], columns["of"], columns["steps/s"]) == (["30"], ["900"], ["60"])
    assert "env steps" not in columns
    both = trial_with({"sgd_steps": 900}, env_steps=64, sgd_steps=30, env_steps_per_s=8.0, episode_return_mean=1.5)
    assert both.line(0.0) == wording("steps/s", "000", "64")


def test_a_resumed_trial_estimates_its_time_left_from_its_recorded_pace() -> None:
    trial = trial_with({"env_steps": 1000}, env_steps=250, iteration=9, time_total_s=30.0)
    assert trial.seconds_left(0.0) == pytest.approx(90.0)


def test_settings_changed_by_a_population_are_shown_with_their_new_values() -> None:
    trial = trial_with({}, env_steps=1)
    trial.observe(TrialEvent("000-seed=0", "PAUSED", params={"lr": 0.5}, place="here:1"), now=1.0)
    assert (trial.params, trial.place, trial.status, trial.ended) == ({"lr": 0.5}, "here:1", "PAUSED", False)


def test_a_stopping_run_shows_what_it_is_waiting_for_and_how_long_that_took_last_time(wording) -> None:
    alone = trial_with({}, iteration=3, time_this_iter_s=27.3)
    waiting = TrialProgress("waits", {})
    assert run_of(waiting).stopping_text() == "the run will stop"
    alone.status = "RUNNING"
    told = "the trial will save and stop at the end of this iteration (the previous one took 27 s)"
    assert run_of(alone, waiting).stopping_text() == told
    first = TrialProgress("first", {}, status="RUNNING")
    assert run_of(first).stopping_text() == wording()
    told = "2 trials will save and stop at the end of their iterations (the longest so far took 27 s)"
    assert run_of(alone, first).stopping_text() == told
    on_ray = run_of(alone, first)
    on_ray.uses_ray = True
    assert on_ray.stopping_text() == wording(told)
    starting = run_of(waiting)
    starting.uses_ray = True
    assert starting.stopping_text() == wording()


def test_trials_ended_by_a_scheduler_are_distinguished_from_finished_ones(wording) -> None:
    early, whole = TrialProgress("early", {}), TrialProgress("whole", {})
    early.observe(TrialEvent("early", "TERMINATED", stopped_by="asha: 3 at 100 env steps is worse"), 1.0)
    whole.observe(TrialEvent("whole", "TERMINATED"), 1.0)
    assert (early.line(1.0), early.ended) == ("early: [stopped]", True)
    assert run_of(early, whole).counts_text() == wording()


def run_of(*trials: TrialProgress, expected: int = 0) -> RunProgress:
    return RunProgress({trial.name: trial for trial in trials}, expected)


def test_the_summary_counts_trials_by_status_and_names_the_leading_trial(wording) -> None:
    trials = [TrialProgress("a", {}, status="RUNNING", best=3.0), TrialProgress("b", {}, best=None)]
    trials.append(TrialProgress("c", {}, status="TERMINATED", best=9.5))
    run = run_of(*trials, expected=5)
    assert run.summary(0.0) == wording("9.5")
    run.resources = RunResources(1.5, 2.0, 0.0, 1.0)
    assert run.resources_text() == wording("1.5")


def test_the_leader_is_the_configuration_with_the_best_mean_over_seeds(wording) -> None:
    def trial(number: int, group: int, best: float | None) -> TrialProgress:
        return TrialProgress(f"{number:03d}", {}, {"lr": 0.1**group}, seed=number % 2, group=group, best=best)

    run = run_of(trial(0, 1, 90.0), trial(1, 1, 10.0), trial(2, 2, 60.0), trial(3, 2, 70.0))
    assert str(run.leader()) == wording("65", "0.01")
    run = run_of(trial(0, 1, 90.0), trial(1, 1, None), trial(2, 2, None))
    assert str(run.leader()) == wording("90", "0.1")
    run = run_of(trial(0, 1, 90.0), trial(1, 1, 10.0))
    assert str(run.leader()) == wording("50")
    assert str(run_of(trial(0, 1, 90.0)).leader()) == "best return 90"
    assert run_of(trial(0, 1, None)).leader() is None


def test_the_time_left_of_a_run_includes_waiting_trials(wording) -> None:
    trials = [TrialProgress(name, {"env_steps": 100}) for name in "abcde"]
    run = run_of(*trials, expected=6)
    assert run.seconds_left(0.0) is None
    for name in "ab":
        run.observe(TrialEvent(name, "RUNNING"), 0.0)
        run.observe(TrialEvent(name, "RUNNING", {"env_steps": 5}), 0.5)
        run.observe(TrialEvent(name, "RUNNING", {"env_steps": 10}), 1.0)
    run.observe(TrialEvent("a", "RUNNING", {"env_steps": 60}), 11.0)
    run.observe(TrialEvent("b", "RUNNING", {"env_steps": 60}), 11.0)
    # Each trial takes 20 s. Two are running with 8 s left, three more are waiting, and a searcher will add one.
    assert run.seconds_left(11.0) == pytest.approx(8.0 + 2 * 20.0)
    for name in "ab":
        run.observe(TrialEvent(name, "TERMINATED", {"env_steps": 100}), 19.0)
    assert run.seconds_left(19.0) == pytest.approx(2 * 19.0)
    assert run.remaining_text(19.0) == wording("40")


def test_the_time_left_of_a_run_is_shown_without_fractions(wording) -> None:
    run = run_of(TrialProgress("a", {"env_steps": 100}))
    run.observe(TrialEvent("a", "RUNNING", {"env_steps": 50, "iteration": 9, "time_total_s": 6.0}), 0.0)
    assert run.seconds_left(0.0) == pytest.approx(6.0)
    assert run.remaining_text(0.0) == wording()
    assert run.remaining_text(2.0) == wording()
    assert run.remaining_text(4.0) == "almost done"


def test_a_finished_run_has_no_time_left() -> None:
    run = run_of(TrialProgress("a", {"env_steps": 100}))
    run.observe(TrialEvent("a", "RUNNING", {"env_steps": 100, "iteration": 9, "time_total_s": 5.0}), 0.0)
    assert run.remaining_text(0.0) == "almost done"
    run.observe(TrialEvent("a", "TERMINATED"), 1.0)
    assert run.seconds_left(1.0) is None


MakeLines = Callable[..., tuple[PlainLines, list[str]]]


@pytest.fixture
def plain_lines() -> Iterator[MakeLines]:
    made: list[PlainLines] = []

    def make(run: RunProgress, prefix: str = "") -> tuple[PlainLines, list[str]]:
        written: list[str] = []
        made.append(PlainLines(run, written.append, prefix=prefix))
        return made[-1], written

    yield make
    for lines in made:
        lines.close()


def after(seconds: float) -> float:
    return time.monotonic() + seconds


def test_plain_lines_of_a_single_trial_show_its_start_its_first_result_and_its_last_result(
    plain_lines: MakeLines, wording
) -> None:
    run = run_of(TrialProgress("a", {"env_steps": 100}))
    lines, written = plain_lines(run)
    for event in (
        TrialEvent("a", "RUNNING", place="here:7"),
        TrialEvent("a", "RUNNING", {"env_steps": 10}),
        TrialEvent("a", "RUNNING", {"env_steps": 50}),
        TrialEvent("a", "RUNNING", {"env_steps": 100}),
        TrialEvent("a", "TERMINATED"),
    ):
        lines.show(run.observe(event, 0.0))
    assert written == wording("here:7", "100")


def test_a_sweep_prints_two_plain_lines_per_trial_that_give_its_name(plain_lines: MakeLines, wording) -> None:
    run = run_of(TrialProgress("a", {}), TrialProgress("b", {}))
    lines, written = plain_lines(run, prefix="sweep: ")
    for event in (
        TrialEvent("a", "RUNNING"),
        TrialEvent("a", "RUNNING", {"env_steps": 10}),
        TrialEvent("a", "PAUSED"),
        TrialEvent("b", "RUNNING"),
        TrialEvent("a", "RUNNING"),
        TrialEvent("b", "ERROR", error="no such env"),
        TrialEvent("a", "TERMINATED"),
    ):
        lines.show(run.observe(event, 0.0))
    assert written == wording("10")


def test_plain_summary_lines_are_printed_at_fixed_intervals(plain_lines: MakeLines, wording) -> None:
    run = run_of(TrialProgress("a", {}), TrialProgress("b", {}))
    lines, written = plain_lines(run)
    lines.show(run.observe(TrialEvent("a", "RUNNING", {"env_steps": 10, "episode_return_mean": 2.0}), 0.0))
    for seconds in (0, 100, 101, 200):
        lines.write_if_due(after(seconds))
    summary = "2 trials: 1 running, 1 pending; return 2; best trial: return 2 (a)"
    assert written == [wording("10", "2.0"), summary, summary]


def test_plain_lines_before_the_first_result_name_the_current_phase_and_its_duration(
    plain_lines: MakeLines,
    wording,
) -> None:
    run = run_of(TrialProgress("a", {}))
    run.uses_ray = True
    lines, written = plain_lines(run)
    lines.write_if_due(after(40))
    run.resources = RunResources(0, 2, 0, 0)
    lines.write_if_due(after(80))
    run.observe(TrialEvent("a", "RUNNING", place="here:7"), 0.0)
    lines.write_if_due(after(130))
    run.observe(TrialEvent("a", "RUNNING", {"env_steps": 10}), 0.0)
    lines.write_if_due(after(170))
    assert [re.sub(r", [^,]*so far", ", ... so far", line) for line in written] == wording("here:7", "10")


def test_plain_lines_are_printed_even_if_no_event_is_reported() -> None:
    told = Event()
    lines = PlainLines(run_of(TrialProgress("a", {}, status="RUNNING")), lambda line: told.set(), every_s=0.001)
    assert told.wait(timeout=60)
    lines.close()
    told.clear()
    lines.close()
    assert not told.is_set()


def test_only_the_metrics_of_a_result_that_are_displayed_are_kept() -> None:
    row = {f"learner/loss_{number}": 0.5 for number in range(100)}
    trial = trial_with({"env_steps": 1000}, **row, env_steps=100, episode_return_mean=None, env_steps_per_s=50.0)
    assert trial.result == {"env_steps": 100, "episode_return_mean": None, "env_steps_per_s": 50.0}
