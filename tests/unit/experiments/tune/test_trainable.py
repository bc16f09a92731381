"""The trainable that Tune runs, called as Tune does, but in this process."""

import gc
import json
import math
import resource
import shutil
import weakref
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete
from ray.tune import PlacementGroupFactory

from rlrun.engine.checkpoint.format import read_checkpoint
from rlrun.engine.checkpoint.manifest import rlrun_version
from rlrun.engine.checkpoint.plain_yaml import load_plain_yaml
from rlrun.engine.datasets.writer import SetWriter
from rlrun.engine.messages.errors import DiskFull, UsageError
from rlrun.experiments.cluster.trial_place import leave_token
from rlrun.experiments.spec.experiment import TrialSpec
from rlrun.experiments.spec.load import parse_experiments
from rlrun.experiments.trial.exploit import Exploit
from rlrun.experiments.trial.results import read_results
from rlrun.experiments.trial.trial_directory import TrialDirectory, TrialRecord
from rlrun.experiments.tune.trainable import AGAIN, DIVERGED, NOTES, ROW, AlgorithmTrainable, TrialError
from tests.results import all_numbers, numbers

PARTS = {
    "train_batch_size": 64,
    "min_env_steps_per_iteration": 0,
    "minibatch_size": 32,
    "num_epochs": 1,
    "num_envs_per_worker": 4,
    "model": {"hiddens": [8]},
}


@pytest.fixture(autouse=True)
def _no_folder_in_the_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a storage from Tune, a Trainable creates a folder in the home directory."""
    monkeypatch.setattr("ray.tune.trainable.trainable.DEFAULT_STORAGE_PATH", str(tmp_path / "ray_results"))


def trial(seed: int = 0, **settings: Any) -> TrialSpec:
    data = {"algorithm": "ppo", "env": "CartPole-v1", "stop": {"iteration": 4}, "seeds": [seed]}
    (experiment,) = parse_experiments({"tiny": {**data, "config": {**PARTS, **settings}}})
    return experiment.trials()[0]


def config(runs: Path, seed: int = 0, *, interval: int | None = None, **settings: Any) -> dict[str, Any]:
    return {
        **config_of(trial(seed, **settings), runs),
        "interval": None if interval is None else [interval, "env_steps"],
    }


def config_of(trial: TrialSpec, runs: Path) -> dict[str, Any]:
    return {
        "trial": trial.to_data(),
        "run_directory": str(runs),
        "token": token_of(runs),
        "disk": "",
        "version": rlrun_version(),
        "eager": False,
        "import_paths": [],
        "interval": None,
        "exploit": None,
    }


def token_of(runs: Path) -> str:
    runs.mkdir(parents=True, exist_ok=True)
    return (runs / ".token").read_text() if (runs / ".token").exists() else leave_token(runs)


def row(result: dict[str, Any]) -> dict[str, Any]:
    return numbers(json.loads(result[ROW]))


def alone(runs: Path, seed: int, iterations: int = 4) -> list[dict[str, Any]]:
    trainable = AlgorithmTrainable(config(runs, seed))
    rows = [row(trainable.train()) for _ in range(iterations)]
    trainable.stop()
    return rows


def status(runs: Path, seed: int = 0) -> tuple[str, str]:
    record = TrialDirectory(runs / f"000-seed={seed}").read_record()
    assert record is not None
    return record.status, record.stop_reason


def test_missing_values_are_null_and_tune_receives_the_metrics_only_as_text(tmp_path: Path) -> None:
    trainable = AlgorithmTrainable(config(tmp_path, num_envs_per_worker=64))
    heard = trainable.train()
    trainable.stop()
    assert not heard.keys() & row(heard).keys()
    assert json.loads(heard[ROW]) == read_results(tmp_path / "000-seed=0")[0]
    assert json.loads(heard[ROW])["episode_return_mean"] is None
    assert NOTES not in heard


def test_the_last_result_of_a_trial_is_marked_as_done_and_ends_it(tmp_path: Path, wording) -> None:
    trainable = AlgorithmTrainable(config(tmp_path))
    assert [trainable.train()["done"] for _ in range(4)] == [False, False, False, True]
    assert status(tmp_path) == wording()
    assert not TrialDirectory(tmp_path / "000-seed=0").is_claimed()


def test_a_trial_killed_after_its_last_checkpoint_ends_at_once_when_resumed(tmp_path: Path, wording) -> None:
    trainable = AlgorithmTrainable(config(tmp_path))
    for _ in range(4):
        trainable.train()
    directory = TrialDirectory(tmp_path / "000-seed=0")
    record = directory.read_record()
    assert record is not None
    directory.write_record(replace(record, status="RUNNING", stop_reason=""))

    trainable = AlgorithmTrainable(config(tmp_path))
    heard = trainable.train()
    assert heard["done"] is True
    assert heard[NOTES] == wording()
    assert status(tmp_path) == wording()
    assert not directory.is_claimed()


def test_a_trial_stopped_by_the_scheduler_is_saved_and_marked_as_terminated(tmp_path: Path) -> None:
    trainable = AlgorithmTrainable(config(tmp_path))
    trainable.train()
    trainable.finish("asha: 9 is below 12")
    trainable.stop()
    assert status(tmp_path) == ("TERMINATED", "asha: 9 is below 12")
    assert (tmp_path / "000-seed=0/checkpoints/iteration_000001").is_dir()


def test_a_trial_whose_actor_is_stopped_is_paused_and_resumes_without_a_note(tmp_path: Path) -> None:
    trainable = AlgorithmTrainable(config(tmp_path / "paused"))
    rows = [row(trainable.train()), row(trainable.train())]
    trainable.stop()
    assert status(tmp_path / "paused") == ("PAUSED", "")

    trainable = AlgorithmTrainable(config(tmp_path / "paused"))
    third = trainable.train()
    assert NOTES not in third
    assert [*rows, row(third), row(trainable.train())] == alone(tmp_path / "alone", 0)
    assert third["time_total_s"] > json.loads(third[ROW])["time_this_iter_s"]


def test_a_trial_that_cannot_be_saved_reports_the_failure_and_frees_its_actor(tmp_path: Path) -> None:
    trainable = AlgorithmTrainable(config(tmp_path))
    trainable.train()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
    try:
        with pytest.raises(TrialError) as raised:
            trainable.pause()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert isinstance(raised.value.failure.error("000-seed=0"), DiskFull)
    assert not TrialDirectory(tmp_path / "000-seed=0").is_claimed()
    assert trainable.reset(config(tmp_path, 1))
    trainable.train()
    trainable.stop()
    assert status(tmp_path, 1) == ("PAUSED", "")


def test_a_trial_interrupted_by_the_user_is_saved_and_can_resume(tmp_path: Path, wording) -> None:
    trainable = AlgorithmTrainable(config(tmp_path / "interrupted"))
    rows = [row(trainable.train()), row(trainable.train())]
    trainable.interrupt()
    assert trainable.train()["done"] is True
    trainable.stop()
    assert status(tmp_path / "interrupted") == ("INTERRUPTED", "")

    trainable = AlgorithmTrainable(config(tmp_path / "interrupted"))
    third = trainable.train()
    assert [*rows, row(third), row(trainable.train())] == alone(tmp_path / "alone", 0)
    (note,) = json.loads(third[NOTES])
    assert note == wording()


def test_a_trial_that_has_not_started_when_the_run_stops_creates_no_files(tmp_path: Path) -> None:
    trainable = AlgorithmTrainable(config(tmp_path))
    trainable.interrupt()
    assert trainable.train()["done"] is True
    trainable.stop()
    assert not (tmp_path / "000-seed=0").exists()


def test_a_reused_actor_keeps_no_state_of_its_previous_trial(tmp_path: Path, wording) -> None:
    trainable = AlgorithmTrainable(config(tmp_path, 0))
    trainable.train()
    assert trainable.reset(config(tmp_path, 1))
    rows = [row(trainable.train()) for _ in range(4)]
    trainable.stop()
    assert rows == alone(tmp_path / "alone", 1)
    assert status(tmp_path, 0) == ("PAUSED", "")
    assert status(tmp_path, 1) == wording()


def test_a_reused_actor_frees_the_objects_of_its_previous_trial(tmp_path: Path) -> None:
    trainable = AlgorithmTrainable(config(tmp_path, 0))
    trainable.train()
    assert trainable._loop is not None
    training, running = trainable._loop.training, trainable._loop.training.running
    parts = (training, training.description.algorithm, running, running.trainee, running.trainee.learner)
    held = [weakref.ref(each) for each in parts]
    del training, running, parts
    gc.disable()  # the objects must be freed without the garbage collector
    try:
        trainable.reset(config(tmp_path, 1))
        assert [each() for each in held] == [None] * 5
    finally:
        gc.enable()
        trainable.stop()


def test_a_member_that_reaches_a_generation_is_saved_and_waits_for_a_decision(tmp_path: Path) -> None:
    trainable = AlgorithmTrainable(config(tmp_path, interval=100))
    assert AGAIN not in trainable.train()
    second = row(trainable.train())
    assert 100 < second["env_steps"] <= 128
    assert (tmp_path / "000-seed=0/checkpoints/iteration_000002").is_dir()
    again = trainable.train()
    assert again[AGAIN] is True
    assert row(again) == second

    trainable.apply_exploit(Exploit(1, trial(), None).to_data())
    assert row(trainable.train())["env_steps"] > second["env_steps"]
    trainable.stop()


@pytest.mark.parametrize("is_elsewhere", [False, True])
@pytest.mark.parametrize(("name", "value"), [("lr", 0.25), ("num_epochs", 2)])
def test_a_member_that_copies_another_takes_its_weights_and_continues_with_its_own_settings(
    tmp_path: Path, name: str, value: float, is_elsewhere: bool
) -> None:
    donor = AlgorithmTrainable(config(tmp_path, 1))
    donor.train()
    donor_steps = row(donor.train())["env_steps"]
    donor.pause()
    parent = tmp_path / "000-seed=1/checkpoints/iteration_000002"

    trainable = AlgorithmTrainable(config(tmp_path, interval=100))
    trainable.train()
    trainable.train()
    exploit = Exploit(1, trial(**{name: value}), parent).to_data()
    if is_elsewhere:  # the trial's actor was given to another trial in between
        trainable.stop()
        trainable = AlgorithmTrainable({**config(tmp_path, interval=100), "exploit": exploit})
    else:
        trainable.apply_exploit(exploit)
    third = row(trainable.train())
    assert third["learner/lr"] == (value if name == "lr" else 3e-4)
    assert third["sgd_steps"] == 4 + (4 if name == "num_epochs" else 2)
    assert third["iteration"] == 3
    assert donor_steps < third["env_steps"] <= donor_steps + 64
    written = load_plain_yaml((tmp_path / "000-seed=0/spec.yaml").read_text())
    assert written["config"][name] == value
    trainable.interrupt()
    content = read_checkpoint(tmp_path / "000-seed=0/checkpoints/iteration_000003")
    assert content.manifest["generation"] == 1
    assert content.spec["config"][name] == value

    # Applying the same exploit again after a kill, before or after it was saved, has no further effect.
    shutil.rmtree(tmp_path / "000-seed=0/checkpoints/iteration_000003")
    trainable = AlgorithmTrainable({**config(tmp_path, interval=100), "exploit": exploit})
    assert row(trainable.train()) == third
    trainable.stop()
    trainable = AlgorithmTrainable({**config(tmp_path, interval=100), "exploit": exploit})
    after = row(trainable.train())
    trainable.stop()
    assert after["iteration"] == 4
    assert third["env_steps"] < after["env_steps"] <= third["env_steps"] + 64


def of_data(folder: Path, seed: int = 0, **settings: Any) -> TrialSpec:
    """Returns a trial that clones ten recorded steps, with five SGD steps per iteration."""
    if not (folder / "data").exists():
        with SetWriter(folder / "data", Box(-1, 1, (2,)), Discrete(2)) as writer:
            steps = {"actions": np.arange(10) % 2, "rewards": np.ones(10), "terminateds": np.arange(10) == 9}
            obs = np.linspace(-1, 1, 22, dtype=np.float32).reshape(11, 2)
            writer.add_episode({"obs": obs, **steps, "truncateds": np.zeros(10, bool)})
    own = {"sgd_steps_per_iteration": 5, "minibatch_size": 4, "model": {"hiddens": [4]}, **settings}
    entry = {"algorithm": "bc", "stop": {"iteration": 6}, "seeds": [seed], "config": own}
    (experiment,) = parse_experiments({"tiny": {**entry, "config": {"input": str(folder / "data"), **own}}})
    return experiment.trials()[0]


@pytest.mark.parametrize("changed", [{"lr": 0.25}, {"minibatch_size": 8}])
def test_generations_of_a_member_that_learns_only_from_data_are_measured_in_sgd_steps(
    tmp_path: Path, changed: dict[str, Any]
) -> None:
    donor = AlgorithmTrainable(config_of(of_data(tmp_path, 1), tmp_path))
    donor.train()
    donor.train()
    donor.pause()
    parent = tmp_path / "000-seed=1/checkpoints/iteration_000002"

    member = {**config_of(of_data(tmp_path), tmp_path), "interval": [10, "sgd_steps"]}
    trainable = AlgorithmTrainable(member)
    assert [AGAIN in trainable.train() for _ in range(3)] == [False, False, True]
    exploit = Exploit(1, of_data(tmp_path, **changed), parent).to_data()
    trainable.apply_exploit(exploit)
    third = row(trainable.train())
    assert (third["sgd_steps"], third["env_steps"]) == (15, 0)
    assert third["learner/lr"] == changed.get("lr", 3e-4)
    fourth = row(trainable.train())
    assert AGAIN in trainable.train()
    trainable.stop()

    for later in (4, 3):  # as if killed after the generation was saved, but before the exploit was
        shutil.rmtree(tmp_path / f"000-seed=0/checkpoints/iteration_{later:06d}", ignore_errors=True)
    trainable = AlgorithmTrainable({**member, "exploit": exploit})
    again = [row(trainable.train()) for _ in range(2)]
    trainable.stop()
    assert all_numbers(again) == all_numbers([third, fourth])


def test_a_diverged_member_is_paused_until_it_can_copy_a_donor(tmp_path: Path) -> None:
    donor = AlgorithmTrainable(config(tmp_path, 1))
    donor.train()
    donor.pause()
    trainable = AlgorithmTrainable(config(tmp_path, interval=1000, lr=1e30))
    heard = trainable.train()
    assert heard[DIVERGED].startswith("training has diverged")
    assert status(tmp_path) == ("PAUSED", "")

    parent = tmp_path / "000-seed=1/checkpoints/iteration_000001"
    trainable.apply_exploit(Exploit(1, trial(), parent).to_data())
    after = row(trainable.train())
    trainable.stop()
    assert (after["iteration"], after["learner/lr"]) == (1, 3e-4)
    assert math.isfinite(after["learner/policy_loss"])


def test_an_exception_in_a_trial_reaches_the_driver_with_its_type_and_message(tmp_path: Path) -> None:
    TrialDirectory(tmp_path / "000-seed=0").write_record(
        TrialRecord("000-seed=0", "PENDING", 0, from_checkpoint=str(tmp_path / "nowhere"))
    )
    trainable = AlgorithmTrainable(config(tmp_path))
    with pytest.raises(TrialError) as raised:
        trainable.train()
    trainable.stop()
    error = raised.value.failure.error("000-seed=0")
    assert type(error).__name__ == "CheckpointError"
    assert "nowhere" in str(error)
    assert status(tmp_path) == ("ERROR", "")


def test_the_placement_group_of_a_trial_includes_its_workers(tmp_path: Path) -> None:
    asked = AlgorithmTrainable.default_resource_request(config(tmp_path, num_workers=2, num_cpus_per_worker=0.5))
    assert asked == PlacementGroupFactory([{"CPU": 1.0}, {"CPU": 0.5}, {"CPU": 0.5}])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"version": "0.0.1"}, r"has rlrun .*, but the driver has 0\.0\.1: install the same version on all machines"),
        ({"token": "another"}, r"cannot access the run's directory .*: pass the cluster with --address, or"),
    ],
)
def test_the_error_for_a_machine_that_cannot_run_a_trial_says_why(
    tmp_path: Path, changes: dict[str, str], message: str
) -> None:
    trainable = AlgorithmTrainable({**config(tmp_path), **changes})
    with pytest.raises(TrialError) as failed:
        trainable.step()
    trainable.stop()
    with pytest.raises(UsageError, match=message):
        raise failed.value.failure.error("000-seed=0")
