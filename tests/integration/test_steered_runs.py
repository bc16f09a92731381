"""Schedulers and searchers on real Ray Tune: what they do to trials, and that a kill does not change it."""

import json
import math
import os
import signal
import subprocess
import sys
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

import rlrun
from rlrun.engine.messages.errors import UsageError
from rlrun.experiments.runs.events import RunEvent, TrialAdded, TrialEvent, TrialNote
from rlrun.experiments.runs.run_directory import RunDirectory
from rlrun.experiments.runs.trial_result import TrialResult
from rlrun.experiments.search.decisions import read_stops
from rlrun.experiments.search.lineage import LINEAGE_FILE, newest_records, read_generations
from tests.results import all_numbers

ROOT = Path(__file__).resolve().parents[2]
CHILD = Path(__file__).with_name("run_until_signal.py")
TINY = {
    "train_batch_size": 64,
    "min_env_steps_per_iteration": 0,
    "minibatch_size": 32,
    "num_epochs": 1,
    "num_envs_per_worker": 4,
    "model": {"hiddens": [8]},
}
INTERVAL = 150
LAST = 2
"""The last generation of a member that stops after three intervals."""
BY_LR = {"metric": "learner/lr", "time_attr": "iteration"}  # so the best trial is known in advance


def spec(stop: dict[str, float], config: dict[str, Any] | None = None, **settings: Any) -> dict[str, Any]:
    data = {"algorithm": "ppo", "env": "CartPole-v1", "stop": stop, "config": {**TINY, **(config or {})}}
    return {"steered": {**data, **settings}}


def population(max_restarts: int = 0, **settings: Any) -> dict[str, Any]:
    mutations = {"lr": {"loguniform": [1e-4, 1e-1]}, "num_epochs": {"choice": [1, 2]}}
    pbt = {"interval_env_steps": INTERVAL, "mutations": mutations, "quantile_fraction": 0.34, **settings}
    whole = {"num_samples": 3, "scheduler": {"pbt": pbt}, "resources": {"cpus": 2}}
    return spec({"env_steps": (LAST + 1) * INTERVAL}, **whole, failure={"max_restarts": max_restarts})


def killed(spec: dict[str, Any], runs: Path, results: int) -> Path:
    """Runs a spec, and kills all its processes after a number of results; returns the run's directory."""
    ended = subprocess.run(
        [sys.executable, CHILD, json.dumps(spec), str(runs), "ray", str(results), "SIGKILL", "tree"],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        start_new_session=True,
        timeout=800,
    )
    assert ended.returncode == -9, ended.stderr
    return runs / "steered"


@pytest.mark.usefixtures("running_ray")
def test_members_of_a_population_run_with_the_settings_recorded_in_the_lineage(tmp_path: Path) -> None:
    events: list[RunEvent] = []
    first = rlrun.run(population(), runs_dir=tmp_path, watch=events.append)
    assert {trial.status for trial in first} == {"TERMINATED"}
    run = first[0].directory.parent
    generations = read_generations(run)
    assert [line.generation for line in generations] == list(range(LAST + 1))
    copies = [member for line in generations for member in line.members if member.parent is not None]
    assert len(copies) >= 2

    lr = {
        trial.name: {
            line.generation: member.params
            for line in generations
            for member in line.members
            if member.trial == trial.name
        }
        for trial in first
    }
    for trial in first:
        generation = 0
        for row in trial.results():
            assert row["learner/lr"] == lr[trial.name][generation]["lr"], (trial.name, row["iteration"])
            generation = max(generation, row["env_steps"] // INTERVAL)
    for trial in first:
        _, newest = newest_records(generations)[trial.name]
        assert {name: trial.params[name] for name in newest.params} == newest.params
    told = [event.text for event in events if isinstance(event, TrialNote) and "continuing from" in event.text]
    assert len(told) == len(copies)
    for trial in first:  # each decision finds the trial waiting, or is reported as it continues
        told_of = [event for event in events if isinstance(event, TrialEvent) and event.trial == trial.name]
        decided = [place for place, event in enumerate(told_of) if event.params is not None]
        assert all(told_of[place - 1].status == "PAUSED" or told_of[place].status == "RUNNING" for place in decided)
    assert not (run / "generations").exists()


@pytest.mark.regress
@pytest.mark.usefixtures("running_ray")
def test_a_killed_population_resumes_with_the_same_lineage_and_results(tmp_path: Path) -> None:
    first = rlrun.run(population(), runs_dir=tmp_path / "first")
    run = first[0].directory.parent
    directory = killed(population(), tmp_path / "killed", 13)  # after some copies
    again = rlrun.run(population(), runs_dir=tmp_path / "killed", resume=True)
    assert (directory / LINEAGE_FILE).read_text() == (run / LINEAGE_FILE).read_text()
    assert [all_numbers(trial.results()) for trial in again] == [all_numbers(trial.results()) for trial in first]
    assert [trial.params for trial in again] == [trial.params for trial in first]


@pytest.mark.chaos
@pytest.mark.usefixtures("running_ray")
def test_a_population_can_be_extended_and_a_member_that_died_after_copying_resumes_from_the_copy(
    tmp_path: Path,
) -> None:
    copies: list[str] = []
    killed: list[str] = []

    def kill_behind_the_first_copy(event: RunEvent) -> None:
        if isinstance(event, TrialNote) and "continuing from" in event.text:
            copies.append(event.trial)
        if isinstance(event, TrialEvent) and event.result and event.trial in copies and not killed:
            killed.append(event.trial)
            os.kill(int(event.place.rpartition(":")[2]), signal.SIGKILL)

    spec = population()
    spec["steered"]["stop"] = {"env_steps": 2 * INTERVAL}
    spec["steered"]["checkpoint"] = {"at_end": False}
    trials = rlrun.run(spec, runs_dir=tmp_path, watch=kill_behind_the_first_copy)
    assert [trial.name for trial in trials if trial.status == "ERROR"] == killed
    trials = rlrun.resume(tmp_path / "steered", retry_failed=True, extend={"env_steps": 3 * INTERVAL})
    assert {trial.status for trial in trials} == {"TERMINATED"}
    for trial in trials:
        assert [row["iteration"] for row in trial.results()] == list(range(1, len(trial.results()) + 1))
        assert trial.last_result["env_steps"] >= 3 * INTERVAL


@pytest.mark.regress
@pytest.mark.usefixtures("running_ray")
def test_asynchronous_members_choose_which_member_to_copy_by_the_scores_known_so_far(tmp_path: Path) -> None:
    """Which copies are made depends on timing, but they always follow from the scores known by then."""
    trials = rlrun.run(population(synchronous=False), runs_dir=tmp_path)
    assert {trial.status for trial in trials} == {"TERMINATED"}
    lines = read_generations(tmp_path / "steered")
    params = {member.trial: [member.params] for member in lines[0].members}
    scores: dict[str, float] = {}
    for line in lines[1:]:
        (member,) = line.members  # each line has one member, as members do not wait for each other
        assert line.generation == len(params[member.trial])
        params[member.trial].append(member.params)
        scores[member.trial] = -math.inf if member.score is None else member.score
        may_have_ended = [name for name in scores if len(params[name]) == LAST + 1 and name != member.trial]
        present = [
            {name: score for name, score in scores.items() if name not in ended}
            for count in range(len(may_have_ended) + 1)
            for ended in combinations(may_have_ended, count)
        ]
        assert member.parent in [parent_of(member.trial, known) for known in present]
    assert {len(settings) for settings in params.values()} == {LAST + 1}
    for trial in trials:
        generation = 0
        for row in trial.results():
            assert row["learner/lr"] == params[trial.name][generation]["lr"], (trial.name, row["iteration"])
            generation = max(generation, row["env_steps"] // INTERVAL)


def parent_of(member: str, scores: dict[str, float]) -> str | None:
    """Returns whom one of at most three members copies: the worst copies the best, if that one is really better."""
    ranked = sorted(scores, key=lambda name: (-scores[name], name))
    pays = len(ranked) > 1 and member == ranked[-1] and scores[ranked[0]] > scores[member]
    return ranked[0] if pays else None


SIX_RATES = {"config": {"lr": {"loguniform": [1e-7, 1e-1]}}, "num_samples": 6, "resources": {"cpus": 2}}


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> list[TrialResult]:
    """Trials that no scheduler stops."""
    return rlrun.run(spec({"iteration": 8}, **SIX_RATES), runs_dir=tmp_path_factory.mktemp("alone"), executor="local")


@pytest.mark.usefixtures("running_ray")
@pytest.mark.parametrize(
    ("scheduler", "num_samples"),
    [
        pytest.param({"asha": {**BY_LR, "grace_period": 2, "reduction_factor": 2}}, 4, id="asha"),
        pytest.param(  # with fewer trials, hyperband would stop none; trials wait, like members of a population
            {"hyperband": {**BY_LR, "grace_period": 2, "reduction_factor": 2}},
            6,
            id="hyperband",
            marks=pytest.mark.regress,
        ),
        pytest.param(  # like asha, the median rule stops trials at once
            {"median": {**BY_LR, "grace_period": 2, "min_samples_required": 1}},
            4,
            id="median",
            marks=pytest.mark.regress,
        ),
    ],
)
def test_schedulers_stop_trials_early_without_changing_the_results_up_to_then(
    tmp_path: Path, scheduler: dict[str, Any], num_samples: int, alone: list[TrialResult]
) -> None:
    some_rates = {**SIX_RATES, "num_samples": num_samples}
    steered = rlrun.run(spec({"iteration": 8}, **some_rates, scheduler=scheduler), runs_dir=tmp_path)
    assert {trial.status for trial in steered} == {"TERMINATED"}
    stops = read_stops(tmp_path / "steered")
    reasons = {trial.name: trial.stop_reason for trial in steered if not trial.stop_reason.startswith("iteration")}
    assert stops
    assert reasons == {name: stop.reason for name, stop in stops.items()}
    best = max(steered, key=lambda trial: trial.params["lr"])
    assert best.name not in stops
    for trial, other in zip(steered, alone[:num_samples], strict=True):
        assert trial.name == other.name
        rows = all_numbers(trial.results())
        assert rows == all_numbers(other.results())[: len(rows)]
        assert len(rows) == 8 or trial.name in stops
        assert trial.checkpoint is not None
        assert trial.checkpoint.name == f"iteration_{len(rows):06d}"


@pytest.mark.chaos
@pytest.mark.usefixtures("running_ray")
def test_a_killed_search_resumes_with_the_same_suggestions_and_results(tmp_path: Path) -> None:
    search = spec(
        {"iteration": 3},
        {"lr": {"loguniform": [1e-5, 1e-1]}, "gamma": {"uniform": [0.9, 0.99]}},
        num_samples=2,
        searcher={"optuna": {"startup_trials": 1, "max_concurrent": 1}},
    )
    events: list[RunEvent] = []
    first = rlrun.run(search, runs_dir=tmp_path / "first", watch=events.append)
    assert {trial.status for trial in first} == {"TERMINATED"}
    assert [event.trial.name for event in events if isinstance(event, TrialAdded)] == [trial.name for trial in first]
    assert len({str(trial.params) for trial in first}) == 2

    directory = killed(search, tmp_path / "killed", 2)  # killed before the second configuration
    assert len(RunDirectory.open(directory).table.trials) == 1
    again = rlrun.run(search, runs_dir=tmp_path / "killed", resume=True)
    assert [trial.params for trial in again] == [trial.params for trial in first]
    assert [all_numbers(trial.results()) for trial in again] == [all_numbers(trial.results()) for trial in first]


def test_a_finished_run_can_be_extended_with_later_stop_bounds(tmp_path: Path) -> None:
    short = spec({"iteration": 2, "env_steps": 5000}, seeds=2)
    rlrun.run(short, runs_dir=tmp_path / "short", executor="local")
    extended = rlrun.resume(tmp_path / "short/steered", extend={"iteration": 5}, executor="local")
    straight = rlrun.run(spec({"iteration": 5, "env_steps": 5000}, seeds=2), runs_dir=tmp_path, executor="local")
    assert [all_numbers(trial.results()) for trial in extended] == [all_numbers(trial.results()) for trial in straight]
    assert {trial.stop_reason for trial in extended} == {"iteration 5 >= 5"}

    with pytest.raises(UsageError, match="iteration is 5 already"):
        rlrun.resume(tmp_path / "short/steered", extend={"iteration": 4})
    with pytest.raises(UsageError, match="does not stop by iterations; did you mean 'iteration'"):
        rlrun.resume(tmp_path / "short/steered", extend={"iterations": 9})


@pytest.mark.parametrize("steering", [{"scheduler": "asha"}, {"searcher": "optuna"}])
def test_schedulers_and_searchers_are_refused_with_the_local_executor(tmp_path: Path, steering: dict[str, Any]) -> None:
    steered = spec({"env_steps": 1000}, {"lr": {"loguniform": [1e-5, 1e-1]}}, num_samples=2, **steering)
    with pytest.raises(UsageError, match=f"leave it out so that the {next(iter(steering))} can"):
        rlrun.run(steered, runs_dir=tmp_path, executor="local")
    assert list(tmp_path.iterdir()) == []
