"""The table of a run's trials on a terminal."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from rlrun.cli.live import LiveView
from rlrun.cli.run_progress import RunProgress
from rlrun.cli.trial_progress import TrialProgress, shown_first
from rlrun.cli.trial_table import columns_of, drawn_run, text_table, that_fit
from rlrun.runs.events import RunResources, TrialEvent


def sweep(trials: int, running: int = 0, paused: int = 0, ended: int = 0) -> RunProgress:
    """Makes a run whose first trials have ended, in their order; the next ones run, the next are paused."""
    run = RunProgress("sweep", {})
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


def drawn(run: RunProgress, width: int, height: int) -> list[str]:
    stream = io.StringIO()
    console = Console(file=stream, width=width, height=height, color_system=None)
    console.print(drawn_run(run, "sweep on Ray: 5 s", "runs/sweep", 0.0, console))
    return [line.rstrip() for line in stream.getvalue().splitlines()]


def test_a_wide_terminal_shows_everything() -> None:
    run = sweep(3, running=1, ended=1)
    run.resources = RunResources(1.0, 2.0, 0.0, 0.0)
    assert drawn(run, 160, 24) == [
        "sweep on Ray: 5 s, in runs/sweep",
        "trial  status         lr  relu  seed  iter  env steps         of  done                return  steps/s  where",
        "001    RUNNING     0.001   yes     1     7    500,000  1,000,000   50%  ━━━━━━         123.4   98,765  host:1",
        "000    TERMINATED  0.001   yes     0     7    500,000  1,000,000   50%  ━━━━━━         123.4   98,765  host:0",
        "3 trials: 1 running, 1 pending, 1 terminated; 1/2 CPUs in use",
        "best return 123.4 (lr=0.001, relu=yes, mean of 2 seeds)",
    ]


def test_a_narrow_terminal_leaves_columns_out_and_keeps_the_return() -> None:
    run = sweep(3, running=1)
    assert drawn(run, 50, 24)[1:3] == [
        "trial  status      lr  relu  env steps  return",
        "000    RUNNING  0.001   yes    500,000   123.4",
    ]
    assert drawn(run, 22, 24)[1:3] == ["trial  status   return", "000    RUNNING   123.4"]


@pytest.mark.parametrize("width", [20, 40, 60, 80, 120, 200])
@pytest.mark.parametrize("height", [4, 10, 24, 100])
@pytest.mark.parametrize("trials", [1, 300])
def test_the_table_fits_the_terminal(width: int, height: int, trials: int) -> None:
    lines = drawn(sweep(trials, running=min(20, trials), paused=trials // 10, ended=trials // 10), width, height)
    assert max(map(len, lines)) <= width
    assert len(lines) <= max(height - 1, 5)


def test_where_there_are_many_trials_running_ones_come_first_then_paused_then_the_last_that_ended() -> None:
    run = sweep(300, running=2, paused=2, ended=50)
    numbers = [line.split()[0] for line in drawn(run, 80, 13)[2:-2]]
    assert numbers == ["050", "051", "052", "053", "049", "048", "047", "046"]
    assert drawn(run, 80, 13)[-2] == "300 trials: 2 running, 2 paused, 246 pending, 50 terminated"
    assert len(shown_first(run.trials.values())) == 54


def test_a_lone_trial_goes_by_its_whole_name() -> None:
    assert drawn(sweep(1, running=1), 200, 24)[2].startswith("000-lr=0.001-seed=0  RUNNING")


def test_columns_with_nothing_in_them_are_not_there() -> None:
    run = RunProgress("a", {"a": TrialProgress("a", {"episode_return_mean": 10.0}, status="RUNNING")})
    assert (
        text_table(columns_of(run, list(run.trials.values()), 0.0)) == "trial  status   return\na      RUNNING       -"
    )


def test_settings_that_are_too_long_are_cut() -> None:
    trial = TrialProgress("000-x", {}, {"hiddens": [64] * 20}, status="RUNNING")
    (column,) = [each for each in columns_of(RunProgress("a", {"a": trial}), [trial], 0.0) if each.heading == "hiddens"]
    assert column.cells == ["[64, 64, 64, 64, 64, 64…"]
    assert [each.heading for each in that_fit([column], 5)] == []


@pytest.mark.parametrize("columns", [20, 80, 200])
def test_the_live_view_fits_the_terminal_and_says_lines_above_itself(
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
