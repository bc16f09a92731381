from __future__ import annotations

import dataclasses
import json
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from rlrun.algorithms.ppo import PPOConfig
from rlrun.cli.main import cli
from rlrun.cli.profile import remedy
from rlrun.cli.profile_tables import profile_data, profile_lines, trace_events
from rlrun.cli.profiling import Profile, WorkerTime, worker_times
from rlrun.engine.flow.flow import OperatorTiming
from rlrun.engine.rollout.counts import MeasuredFragment
from rlrun.engine.rollout.phases import FragmentTimes, machine_clock
from rlrun.experiments.spec.load import shipped_experiment

pytestmark = pytest.mark.usefixtures("own_folder")

SPEC = """
tiny:
  algorithm: ppo
  env: {env}
  seeds: 2
  stop: {{iteration: 3}}
  config:
    num_envs_per_worker: 2
    train_batch_size: 64
    min_env_steps_per_iteration: 0
    minibatch_size: 32
    num_epochs: 2
    model: {{hiddens: [8]}}
"""
PLANNED = [
    "parallel_rollouts",
    "ComputeAdvantages",
    "ConcatBatches",
    "MeasureValues",
    "Standardize",
    "TrainOnBatch",
    "MergeFilters",
    "BroadcastWeights",
]
LAB = """
import gymnasium
from rlrun.algorithms.ppo import PPO


class Pole(gymnasium.Wrapper):
    steps = 0

    def step(self, action):
        Pole.steps += 1
        if Pole.steps == {step}:
            raise {error}
        return self.env.step(action)


def pole():
    return Pole(gymnasium.make("CartPole-v1"))


class Careless(PPO):
    def loss(self, outputs, batch, scheduled):
        return batch["no such column"]
"""


def profile(*words: object) -> Result:
    return CliRunner().invoke(cli, ["profile", *map(str, words)])


def spec_with_lab(folder: Path, error: str, step: int, module: str) -> Path:
    """Writes an env that raises at a step, and a spec for it; modules stay imported, so each needs its own name."""
    (folder / f"{module}.py").write_text(LAB.format(error=error, step=step))
    (folder / "tiny.yaml").write_text(SPEC.format(env=f"{module}:pole"))
    return folder / "tiny.yaml"


def measured_fragment(
    worker: int, began: float, seconds: dict[str, float], late: float, clock: str = ""
) -> MeasuredFragment:
    ended = began + sum(seconds.values())
    times = FragmentTimes(clock or machine_clock(), began, ended, seconds)
    return MeasuredFragment(worker, 100_000, times, ended + late)


def by_hand() -> Profile:
    """Ten seconds starting at 100, with two workers, the second of them on another machine."""
    fragments = (
        measured_fragment(1, 100.0, {"env_step": 1.0, "inference": 2.0}, late=1.0),
        measured_fragment(2, 5000.0, {"env_step": 2.0}, late=-4899.0, clock="elsewhere"),
        measured_fragment(1, 105.0, {"env_step": 1.0, "inference": 1.0, "sgd": 0.5}, late=2.5),
        measured_fragment(2, 5003.0, {"env_step": 2.0}, late=-4898.5, clock="elsewhere"),
    )
    waits = ((100.0, 103.5), (108.0, 109.0))
    operators = (
        OperatorTiming("parallel_rollouts", "parallel_rollouts", "source", 0.75, 4, False, ((103.5, 104.25),)),
        OperatorTiming("TrainOnBatch", "TrainOnBatch", "for_each", 3.5, 2, True, ((104.5, 108.0),)),
    )
    receiving = sorted([*waits, *operators[0].spans])
    return Profile(
        began=100.0,
        ended=110.0,
        iterations=2,
        env_steps=500_000,
        sgd_steps=4,
        hooks_s=None,
        operators=operators,
        waits=waits,
        fragments=fragments,
        workers=tuple(worker_times(fragments, receiving, travel=True)),
        policy_lag_mean=1.25,
        policy_lag_max=3,
        was_interrupted=False,
    )


def test_the_profile_tables_divide_up_the_time_of_the_driver_the_workers_and_the_learner(wording) -> None:
    trial = shipped_experiment("ppo", "CartPole-v1").first_trial()
    assert "\n".join(profile_lines(trial, by_hand(), 1.5)) == wording("CartPole-v1", "steps/s", "parallel_rollouts")


@pytest.mark.parametrize(
    ("sgd_s", "waited_s", "env_s", "settings", "said"),
    [
        (6.0, 1.0, 2.0, {}, "remedy: learning takes 60% of the time"),
        (4.0, 2.0, 2.0, {}, "remedy: none"),
        (
            1.0,
            6.0,
            2.0,
            {"num_envs_per_worker": 8},
            "in acting than in envs: try num_envs_per_worker: 16 (now 8)",
        ),
        (
            1.0,
            6.0,
            20.0,
            {"num_workers": 2},
            "collecting experience takes 60% of the time, most of it in envs: try num_w",
        ),
        (1.0, 6.0, 2.0, {"num_workers": 15, "num_envs_per_worker": 64}, "the 16 CPUs of this machine are too few"),
    ],
)
def test_a_profile_ends_with_a_remedy(
    sgd_s: float, waited_s: float, env_s: float, settings: dict[str, int], said: str
) -> None:
    measured = dataclasses.replace(
        by_hand(),
        operators=(OperatorTiming("TrainOnBatch", "TrainOnBatch", "for_each", sgd_s, 2, True, ()),),
        waits=((100.0, 100.0 + waited_s),),
        workers=(WorkerTime(1, 1, 100, {"env_step": env_s, "inference": 3.0, "recording": 1.0}, 0.0, None, None),),
    )
    assert said in remedy(measured, PPOConfig(**settings), cpus=16)


def test_the_remedy_suggests_enough_workers_to_quarter_collection_time_but_no_more_than_cpus(wording) -> None:
    measured = dataclasses.replace(by_hand(), operators=(), waits=((100.0, 106.0),), workers=())
    assert remedy(measured, PPOConfig(num_envs_per_worker=64), cpus=16) == wording("num_workers")
    assert remedy(measured, PPOConfig(num_envs_per_worker=64), cpus=4) == wording("num_workers")


def test_trial_hooks_have_their_own_line_in_the_profile() -> None:
    measured = dataclasses.replace(by_hand(), hooks_s=0.25)
    lines = "\n".join(profile_lines(shipped_experiment("ppo", "CartPole-v1").first_trial(), measured, 1.5))
    assert "trial hooks            2.5     0.25      -            -" in lines
    assert measured.between_s == 1.0


def test_the_profile_shows_no_learner_time_if_sgd_runs_only_on_workers(wording) -> None:
    measured = by_hand()
    without = dataclasses.replace(measured, operators=measured.operators[:1])
    lines = list(profile_lines(shipped_experiment("ppo", "CartPole-v1").first_trial(), without, 1.5))
    assert lines[-2] == wording("45.0")


def test_the_json_of_a_profile_matches_its_tables() -> None:
    trial = shipped_experiment("ppo", "CartPole-v1").first_trial()
    data = profile_data(trial, by_hand(), 1.5)
    assert data["env_steps_per_s"] == 50_000
    assert data["learner_wait_share"] == 0.45
    assert data["between_operators_s"] == 1.25
    assert data["operators"][1] == {
        "path": "TrainOnBatch",
        "seconds": 3.5,
        "share": 0.35,
        "items": 2,
        "learns": True,
    }
    assert data["workers"][0] == {
        "worker": 1,
        "fragments": 2,
        "env_steps": 200_000,
        "phases": {"env_step": 2.0, "inference": 3.0, "sgd": 0.5},
        "wait_s": 2.0,
        "transfer_s": 2.0,
        "queued_s": 1.5,
        "served": None,
    }
    assert data["workers"][1]["transfer_s"] is None
    assert data["learner"] == {"sgd_s": 3.5, "sgd_steps": 4}


def test_the_trace_has_a_track_for_each_operator_and_worker() -> None:
    events = list(trace_events(by_hand()))
    named = [
        (event["name"], event["pid"], event["tid"], event["args"]["name"]) for event in events if event["ph"] == "M"
    ]
    assert named == [
        ("process_name", 1, 0, "driver"),
        ("thread_name", 1, 1, "parallel_rollouts"),
        ("thread_name", 1, 2, "TrainOnBatch"),
        ("thread_name", 1, 3, "waiting"),
        ("process_name", 2, 0, "rollout workers"),
        ("thread_name", 2, 2, "worker 1"),
        ("thread_name", 2, 3, "worker 2"),
    ]
    spans = [
        (event["name"], event["pid"], event["tid"], event["ts"] / 1e6, event["dur"] / 1e6)
        for event in events
        if event["ph"] == "X"
    ]
    assert spans == [
        ("parallel_rollouts", 1, 1, 3.5, 0.75),
        ("TrainOnBatch", 1, 2, 4.5, 3.5),
        ("waiting", 1, 3, 0.0, 3.5),
        ("waiting", 1, 3, 8.0, 1.0),
        ("fragment", 2, 2, 0.0, 3.0),
        ("env_step", 2, 2, 0.0, 1.0),
        ("inference", 2, 2, 1.0, 2.0),
        ("fragment", 2, 2, 5.0, 2.5),
        ("env_step", 2, 2, 5.0, 1.0),
        ("inference", 2, 2, 6.0, 1.0),
        ("sgd", 2, 2, 7.0, 0.5),
        # These times are from another machine's clock. They are shifted as if the fastest fragment, the first one, had
        # arrived when it was done.
        ("fragment", 2, 3, 1.0, 2.0),
        ("env_step", 2, 3, 1.0, 2.0),
        ("fragment", 2, 3, 4.0, 2.0),
        ("env_step", 2, 3, 4.0, 2.0),
    ]
    assert [event["args"] for event in events if event["name"] == "fragment"] == [{"env_steps": 100_000}] * 4


def spans_by_track(events: Iterable[dict[str, Any]]) -> Iterator[tuple[tuple[int, int], list[dict[str, Any]]]]:
    tracks = defaultdict(list)
    for event in events:
        if event["ph"] == "X":
            tracks[event["pid"], event["tid"]].append(event)
    yield from tracks.items()


def assert_nested(events: list[dict[str, Any]]) -> None:
    """Checks that any two spans of a track are separate or nested."""
    open_ends: list[float] = []
    for event in sorted(events, key=lambda event: (event["ts"], -event["dur"])):
        began, ended = event["ts"], event["ts"] + event["dur"]
        while open_ends and open_ends[-1] <= began + 1e-6:
            open_ends.pop()
        assert not open_ends or ended <= open_ends[-1] + 1e-6
        open_ends.append(ended)


def test_times_in_the_trace_of_a_profiled_run_add_up_to_those_in_the_tables(tmp_path: Path, wording) -> None:
    (tmp_path / "tiny.yaml").write_text(SPEC.format(env="CartPole-v1"))
    done = profile("-f", "tiny.yaml", "--seconds", "0.5", "--trace", "trace.json", "--json")
    assert done.exit_code == 0, done.output
    assert wording("000") in done.stderr.splitlines()
    data = json.loads(done.stdout)
    assert [operator["path"] for operator in data["operators"]] == PLANNED
    assert data["seconds"] >= 0.5
    assert data["env_steps"] == pytest.approx(64 * data["iterations"], rel=0.1)  # a few rows are not env steps
    assert data["learner"]["sgd_steps"] == 4 * data["iterations"] > 0
    assert (data["learner_wait_share"], data["policy_lag_mean"], data["policy_lag_max"]) == (0, 0, 0)
    assert not data["interrupted"]
    in_all = sum(operator["seconds"] for operator in data["operators"]) + data["between_operators_s"]
    assert in_all == pytest.approx(data["seconds"], abs=1e-6)
    assert data["between_operators_s"] > 0

    (worker,) = data["workers"]
    assert (worker["worker"], worker["fragments"], worker["env_steps"]) == (0, data["iterations"], data["env_steps"])
    assert (worker["transfer_s"], worker["queued_s"]) == (None, None)
    assert sum(worker["phases"].values()) + worker["wait_s"] <= data["seconds"]

    trace = json.loads((tmp_path / "trace.json").read_text())
    named = [event for event in trace["traceEvents"] if event["name"] == "thread_name"]
    tracks = {(event["pid"], event["tid"]): event["args"]["name"] for event in named}
    assert sorted(tracks.values()) == sorted([*PLANNED, "waiting", "local worker"])
    summed: dict[str, float] = defaultdict(float)
    for track, events in spans_by_track(trace["traceEvents"]):
        assert_nested(events)
        for event in events:
            assert tracks[track] in (event["name"], "local worker")
            assert event["ts"] >= 0
            assert event["ts"] + event["dur"] <= 1e6 * data["seconds"] + 1
            summed[event["name"]] += event["dur"] / 1e6
    for operator in data["operators"]:
        assert summed[operator["path"]] == pytest.approx(operator["seconds"], abs=1e-5)
    for phase, seconds in worker["phases"].items():
        assert summed[phase] == pytest.approx(seconds, abs=1e-5)
    assert summed["fragment"] == pytest.approx(sum(worker["phases"].values()), abs=1e-5)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["tiny.yaml", "trace.json"]


def test_an_algorithm_and_env_can_be_profiled_without_a_spec_file(tmp_path: Path, wording) -> None:
    settings = [f"config.{setting}" for setting in ("train_batch_size=64", "minibatch_size=64", "num_epochs=1")]
    overrides = [word for setting in settings for word in ("--set", setting)]
    done = profile("--algorithm", "ppo", "--env", "CartPole-v1", *overrides, "--seconds", "0.2")
    assert done.exit_code == 0, done.output
    assert done.stderr == wording("0.2")
    lines = done.stdout.splitlines()
    assert lines[0] == wording("CartPole-v1", "000")
    assert [line.split()[0] for line in lines[4:14]] == ["operator", *PLANNED, "waiting"]
    assert any(line.startswith("local worker") for line in lines)
    assert lines[-2] == wording()
    assert lines[-1].startswith("remedy: ")
    assert list(tmp_path.iterdir()) == []


def test_ctrl_c_prints_the_profile_measured_so_far(tmp_path: Path) -> None:
    spec = spec_with_lab(tmp_path, "KeyboardInterrupt", step=400, module="interrupted_lab")
    done = profile("-f", spec, "--seconds", "60", "--trace", "trace.json")
    assert done.exit_code == 130
    assert "with 4 iterations, " in done.stdout  # of 64 steps each, after two of warm-up; the seventh was interrupted
    assert "Interrupted: " in done.stderr
    assert json.loads((tmp_path / "trace.json").read_text())["traceEvents"]


def test_ctrl_c_prints_nothing_if_nothing_has_been_measured_yet(tmp_path: Path) -> None:
    done = profile("-f", spec_with_lab(tmp_path, "KeyboardInterrupt", step=70, module="early_lab"))
    assert (done.exit_code, done.stdout) == (130, "")
    assert "Interrupted." in done.stderr


def test_errors_in_envs_and_plugins_are_not_reported_as_bugs_in_rlrun(tmp_path: Path) -> None:
    spec = spec_with_lab(tmp_path, "OSError('no laser')", step=200, module="broken_lab")
    failed = profile("-f", spec)
    assert failed.exit_code == 4
    assert "no laser" in failed.stderr
    assert "bug in rlrun" not in failed.stderr
    careless = profile("-f", spec, "--set", "algorithm=broken_lab:Careless", "--set", "env=CartPole-v1")
    assert careless.exit_code == 4, careless.stderr
    assert "no such column" in careless.stderr
    assert "Careless failed in " in careless.stderr


def test_a_clock_that_stands_still_ends_the_profile_with_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wording
) -> None:
    (tmp_path / "tiny.yaml").write_text(SPEC.format(env="CartPole-v1"))
    now = time.perf_counter()
    monkeypatch.setattr(time, "perf_counter", lambda: now)
    stopped = profile("-f", tmp_path / "tiny.yaml")
    assert stopped.exit_code == 4
    assert wording("time.perf_counter") in stopped.stderr.splitlines()


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ([], "name spec files with -f, or an algorithm and an env"),
        (["--algorithm", "ppo"], "--algorithm and --env must be given together"),
        (["-f", "tiny.yaml", "--env", "CartPole-v1"], "name spec files with -f, or an algorithm and an env"),
        (["-f", "tiny.yaml", "--seconds", "0"], "0.0 is not in the range x>0"),
        (["-f", "tiny.yaml", "--trace", "nowhere/trace.json"], "nowhere does not exist"),
        (["-f", "tiny.yaml", "--set", "config.lrr=1"], "did you mean 'lr'?"),
        (["--algorithm", "pppo", "--env", "CartPole-v1"], "did you mean 'ppo'?"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_invalid_arguments_are_refused_before_anything_runs(words: list[str], complaint: str, tmp_path: Path) -> None:
    (tmp_path / "tiny.yaml").write_text(SPEC.format(env="CartPole-v1"))
    done = profile(*words)
    assert done.exit_code == 2, done.output
    assert complaint in done.stderr
    assert done.stdout == ""
