"""The real wandb and mlflow, without a network: what they log is read back with their own readers."""

from __future__ import annotations

import json
import os
import struct
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rlrun.algorithms.ppo import PPO
from rlrun.experiments.spec.experiment import TrialSpec
from rlrun.experiments.spec.loggers import LoggersConfig
from rlrun.experiments.trial.trial_loggers import TrialLoggers, loggers_of, require_loggers

pytestmark = [pytest.mark.services, pytest.mark.filterwarnings("default")]  # we cannot fix these packages' warnings


BLOCK = 32_768


def trial(number: int, loggers: LoggersConfig) -> TrialSpec:
    return TrialSpec.parse(
        {
            "name": f"{number:03d}-lr=0.01-seed=0",
            "index": number,
            "seed": 0,
            "params": {"lr": 0.01, "hiddens": [64, 64]},
            "experiment": "walkers",
            "algorithm": "ppo",
            "env": "CartPole-v1",
            "config": PPO.Config(lr=0.01),
            "stop": {"iteration": 4},
            "checkpoint": {},
            "evaluation": None,
            "resources": {},
            "expect": None,
            "loggers": loggers,
        }
    )


def row(iteration: int) -> dict[str, Any]:
    mean = None if iteration == 1 else 2.0 * iteration
    return {"iteration": iteration, "env_steps": 10 * iteration, "episode_return_mean": mean, "info/é": 1.0}


def run_part(spec: TrialSpec, directory: Path, iterations: range, status: Any) -> None:
    require_loggers(spec.loggers)
    directory.mkdir(parents=True, exist_ok=True)
    loggers = TrialLoggers(loggers_of(spec.loggers), spec, directory, pytest.fail, delivery_timeout_s=60)
    for iteration in iterations:
        loggers.log(row(iteration))
    loggers.finish(status)


def wandb_records(directory: Path) -> Iterator[Any]:
    """Reads wandb's own files: a header, then records in blocks, as in a LevelDB log."""
    from wandb.proto.wandb_internal_pb2 import Record

    for file in sorted(directory.glob("wandb/offline-run-*/*.wandb"), key=os.path.getmtime):
        data, place, whole = file.read_bytes(), 7, b""
        while place + 7 <= len(data):
            if BLOCK - place % BLOCK < 7:
                place += BLOCK - place % BLOCK
            length, kind = struct.unpack_from("<HB", data, place + 4)
            whole += data[place + 7 : place + 7 + length]
            place += 7 + length
            if kind in (1, 4):  # a whole record, or the last piece of one
                record = Record()
                record.ParseFromString(whole)
                yield record
                whole = b""


def wait_for_ends(directory: Path, ends: int) -> list[Any]:
    """Returns wandb's records once a number of runs have ended in its files; wandb writes them in another process."""
    deadline = time.monotonic() + 20
    while True:
        records = list(wandb_records(directory))
        if sum(record.WhichOneof("record_type") == "exit" for record in records) == ends:
            return records
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_wandb_continues_the_same_run_after_a_resume(tmp_path: Path) -> None:
    spec = trial(0, LoggersConfig.parse({"wandb": {"mode": "offline", "tags": ["a"]}}))
    directory = tmp_path / "walkers-2" / spec.name
    run_part(spec, directory, range(1, 4), "INTERRUPTED")
    run_part(spec, directory, range(3, 5), "TERMINATED")
    records = wait_for_ends(directory, 2)
    runs = [record.run for record in records if record.WhichOneof("record_type") == "run"]
    assert {run.run_id for run in runs} == {(directory / "wandb_id.txt").read_text().strip()}
    assert {(run.project, run.run_group, run.display_name) for run in runs} == {("walkers", "walkers-2", spec.name)}
    assert all(list(run.tags) == ["a"] for run in runs)
    config = {item.key: json.loads(item.value_json) for item in runs[0].config.update}
    assert config["config"]["lr"] == 0.01
    assert config["params"] == {"lr": 0.01, "hiddens": [64, 64]}
    history = [record.history for record in records if record.WhichOneof("record_type") == "history"]
    rows = [{item.key or item.nested_key[0]: json.loads(item.value_json) for item in told.item} for told in history]
    assert [(each["_step"], each["env_steps"], each.get("episode_return_mean")) for each in rows] == [
        (1, 10, None),
        (2, 20, 4.0),
        (3, 30, 6.0),
        (3, 30, 6.0),
        (4, 40, 8.0),
    ]
    exits = [record.exit.exit_code for record in records if record.WhichOneof("record_type") == "exit"]
    assert exits == [255, 0]


def test_mlflow_continues_the_same_run_after_a_resume(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    from mlflow.tracking import MlflowClient

    specs = [trial(number, LoggersConfig.parse(["mlflow"])) for number in (0, 1)]
    run_part(specs[0], tmp_path / "walkers" / specs[0].name, range(1, 4), "INTERRUPTED")
    client = MlflowClient(str(tmp_path / "mlruns"))
    experiment = client.get_experiment_by_name("walkers")
    assert experiment is not None
    assert [run.info.status for run in client.search_runs([experiment.experiment_id])] == ["KILLED"]
    run_part(specs[0], tmp_path / "walkers" / specs[0].name, range(4, 5), "TERMINATED")
    run_part(specs[1], tmp_path / "walkers" / specs[1].name, range(1, 3), "ERROR")
    found = {run.info.run_name: run for run in client.search_runs([experiment.experiment_id])}
    assert {name: run.info.status for name, run in found.items()} == {
        specs[0].name: "FINISHED",
        specs[1].name: "FAILED",
    }
    first = found[specs[0].name]
    assert first.data.params == {
        "algorithm": "ppo",
        "env": "CartPole-v1",
        "seed": "0",
        "lr": "0.01",
        "hiddens": "[64, 64]",
    }
    assert first.data.tags["rlrun.run"] == "walkers"
    curve = [
        (metric.step, metric.value) for metric in client.get_metric_history(first.info.run_id, "episode_return_mean")
    ]
    assert curve == [(20, 4.0), (30, 6.0), (40, 8.0)]


def test_an_unreachable_service_is_reported_once_and_training_continues(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    spec = trial(0, LoggersConfig.parse({"mlflow": {"tracking_uri": "http://127.0.0.1:9"}}))
    announced: list[str] = []
    loggers = TrialLoggers(loggers_of(spec.loggers), spec, tmp_path, announced.append, delivery_timeout_s=60)
    loggers.log(row(1))
    loggers.finish("TERMINATED")
    (told,) = announced
    assert told.startswith("mlflow failed; training continues without it: ")
