"""What run and resume refuse before anything starts, and what importing them must not import."""

import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import rlrun
from rlrun.engine.messages.errors import (
    CheckpointError,
    EnvironmentUnusable,
    ExitCode,
    SpecError,
    TrainingFailed,
    UsageError,
)
from rlrun.experiments.cluster.ray_session import RaySession, belongs_to_ray, warn_if_open_to_everyone
from rlrun.experiments.launch.checks import check_envs, choose_executor
from rlrun.experiments.launch.parts import LaunchedExperiment, is_left
from rlrun.experiments.launch.run import resume, run
from rlrun.experiments.runs.run_directory import RunDirectory
from rlrun.experiments.spec.load import parse_experiments


def groundless() -> None:
    """An env factory that raises."""
    raise RuntimeError("no ground")


SPEC: dict[str, Any] = {"algorithm": "ppo", "env": "CartPole-v1", "stop": {"iteration": 1}}


def test_importing_the_entry_point_imports_neither_torch_nor_ray() -> None:
    look = "import sys, rlrun, rlrun.experiments.launch.run; rlrun.run, rlrun.resume, rlrun.PPO, rlrun.Training"
    look += "; print(sorted({'torch', 'ray'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_importing_rlrun_imports_no_submodules() -> None:
    look = "import sys; before = set(sys.modules); import rlrun"
    look += "; print(sorted(name for name in set(sys.modules) - before if name.startswith('rlrun')))"
    done = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True)
    assert done.stdout == "['rlrun']\n"


def test_accessing_an_unknown_public_name_raises_an_attribute_error(wording) -> None:
    with wording.raised(AttributeError, "rlrun", "Trainer"):
        _ = rlrun.Trainer


@pytest.fixture
def without_ray() -> None:
    """Disconnects from a Ray that an earlier test may have started here: connected processes may wait for nodes."""
    if belongs_to_ray():
        sys.modules["ray"].shutdown()


@pytest.mark.usefixtures("without_ray")
@pytest.mark.parametrize("kind", ["workers", "learners"])
def test_a_trial_that_can_never_fit_is_refused_before_anything_is_written(tmp_path: Path, kind: str) -> None:
    spec = {**SPEC, "config": {f"num_{kind}": 2000}}
    with pytest.raises(UsageError, match=rf"needs 2000 CPUs \(2000 x 1 for {kind}\)"):
        run({"greedy": spec}, runs_dir=tmp_path / "runs")
    assert not (tmp_path / "runs").exists()


@pytest.mark.usefixtures("without_ray")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"experiments": []}, "no experiments to run"),
        ({"experiments": {"a": SPEC, "b": SPEC}, "name": "c"}, "the name 'c' can be given to one run only"),
        ({"experiments": {"a": SPEC}, "name": "../c"}, r"the name '\.\./c' must consist of letters"),
        ({"experiments": {"a": SPEC}, "wait_for_nodes_s": 9.0}, "--wait-for-nodes needs --address"),
        ({"experiments": {"a": SPEC}, "executor": "local", "address": "auto"}, "executor 'local' runs trials in this"),
    ],
)
def test_invalid_and_contradictory_arguments_are_refused(
    tmp_path: Path, arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        run(**arguments, runs_dir=tmp_path / "runs")
    assert not (tmp_path / "runs").exists()


def test_a_run_that_fails_to_start_leaves_nothing_behind(tmp_path: Path, wording) -> None:
    with wording.raised(UsageError):
        run({"swing": {**SPEC, "algorithm": "dqn", "env": "Pendulum-v1"}}, runs_dir=tmp_path, executor="local")
    assert list(tmp_path.iterdir()) == []


def test_algorithms_that_do_not_fit_their_env_are_refused_before_a_run_is_created(wording) -> None:
    swing = parse_experiments({"swing": {**SPEC, "algorithm": "dqn", "env": "Pendulum-v1"}})
    sound = parse_experiments({"sound": SPEC, "grid": {**SPEC, "env": {"grid_search": ["CartPole-v1", "Acrobot-v1"]}}})
    judged = {**SPEC, "evaluation": {"every": 1, "episodes": 1, "env": "Acrobot-v1"}}
    check_envs(sound)
    with wording.raised(UsageError):
        check_envs([*sound, *swing])
    with pytest.raises(UsageError, match=r"(?s)^swing: a Q policy .*\njudged: env Acrobot-v1: the observations are"):
        check_envs([*swing, *parse_experiments({"judged": judged})])


def test_the_error_for_a_single_experiment_that_cannot_run_names_it_and_keeps_its_exit_code() -> None:
    with pytest.raises(TrainingFailed, match=r"(?s)^fails: .*no ground") as failed:
        check_envs(parse_experiments({"fails": {**SPEC, "env": f"{__name__}:groundless"}}))
    assert failed.value.exit_code == ExitCode.TRAINING_FAILED


def test_an_invalid_spec_or_seed_raises_a_spec_error(tmp_path: Path, wording) -> None:
    with wording.raised(SpecError, "algorithm"):
        run({"a": {**SPEC, "algoritm": "ppo"}}, runs_dir=tmp_path)
    with pytest.raises(SpecError, match="seeds"):
        run({"a": SPEC}, seed=-1, runs_dir=tmp_path)


def test_an_invalid_start_checkpoint_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError):
        run({"a": SPEC}, from_checkpoint=tmp_path, runs_dir=tmp_path / "runs")
    assert not (tmp_path / "runs").exists()


def test_an_address_where_nothing_listens_is_refused_at_once_and_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wording
) -> None:
    monkeypatch.setenv("RAY_AUTH_TOKEN", "0123456789abcdef")
    with socket.socket() as taken:  # bound but not listening, so that nothing listens there
        taken.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with wording.raised(UsageError, address=address):
            run({"a": SPEC}, address=address, runs_dir=tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("address", "mode", "message"),
    [
        (
            "ray://10.0.0.1:10001",
            "token",
            "Ray Client is not supported; run rlrun on a node of the cluster, with --address auto",
        ),
        (
            "10.0.0.1:6379",
            "disabled",
            "joining a cluster needs its token: unset RAY_AUTH_MODE",
        ),
        ("10.0.0.1:6379", "token", "joining a cluster needs its token: set RAY_AUTH_TOKEN"),
    ],
)
def test_joining_a_cluster_from_outside_its_nodes_or_without_its_token_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, address: str, mode: str, message: str
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("RAY_AUTH_MODE", mode)
    for name in ("RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(UsageError, match=message):
        run({"a": SPEC}, address=address, runs_dir=tmp_path / "runs")
    assert not (tmp_path / "runs").exists()


def test_overrides_for_experiments_that_are_already_parsed_are_refused(tmp_path: Path, wording) -> None:
    with wording.raised(UsageError):
        run(parse_experiments({"a": SPEC}), overrides=["stop.iteration=2"], runs_dir=tmp_path)


def test_a_cluster_without_token_authentication_causes_a_warning(monkeypatch: pytest.MonkeyPatch, wording) -> None:
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    with wording.warned(UserWarning, "RAY_AUTH_MODE"):
        warn_if_open_to_everyone()


def test_a_search_that_was_interrupted_between_two_suggestions_is_not_considered_complete(tmp_path: Path) -> None:
    searched = {**SPEC, "searcher": "bohb", "scheduler": {"bohb": {"max_t": 9}}, "num_samples": 2}
    (experiment,) = parse_experiments({"searched": {**searched, "config": {"lr": {"uniform": [0.001, 0.01]}}}})
    directory = RunDirectory.create(tmp_path, "searched", experiment, [], "ray")
    part = LaunchedExperiment(directory, experiment, [], "ray", resumed=False)
    assert is_left(part, directory.results())


@pytest.mark.parametrize(
    ("more", "needs"),
    [({}, False), ({"config": {"num_workers": 1}}, True), ({"scheduler": {"asha": {"max_t": 9}}}, True)],
)
def test_several_trials_without_workers_or_a_scheduler_use_ray_but_do_not_need_it(
    tmp_path: Path, more: dict[str, Any], needs: bool
) -> None:
    (experiment,) = parse_experiments({"several": {**SPEC, "seeds": 2, **more}})
    trials = experiment.trials()
    assert choose_executor(experiment, trials, None, None) == "ray"
    directory = RunDirectory.create(tmp_path, "several", experiment, trials, "ray")
    part = LaunchedExperiment(directory, experiment, trials, "ray", resumed=False)
    assert (part.uses_ray, part.needs_ray) == (True, needs)


@pytest.mark.parametrize("is_optional", [True, False])
def test_if_ray_is_optional_a_problem_when_starting_it_points_to_the_local_executor(
    monkeypatch: pytest.MonkeyPatch, is_optional: bool
) -> None:
    def no_ray(*_numbers: int, say: Callable[[str], object], quiet: bool) -> None:
        say("second attempt")
        raise EnvironmentUnusable("no Ray here")

    monkeypatch.setattr("rlrun.engine.actors.private_ray.start", no_ray)
    monkeypatch.setattr("ray.is_initialized", lambda: False)
    said: list[str] = []
    (experiment,) = parse_experiments({"several": {**SPEC, "seeds": 2}})
    with pytest.raises(EnvironmentUnusable):
        RaySession(experiment.trials(), is_optional=is_optional).start(said.append, lambda failure: None)
    assert ["--executor local" in text for text in said] == [True] * is_optional + [False]


def test_a_directory_that_is_not_a_run_cannot_be_resumed(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="not a run"):
        resume(tmp_path)
