"""Runs as stored on disk, written by hand: as many trials as a test needs, with the numbers it needs."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from rlrun.engine.checkpoint.plain_yaml import dump_plain_yaml
from rlrun.experiments.runs.run_directory import RunTable
from rlrun.experiments.trial.trial_directory import TrialDirectory, TrialRecord

VERSIONS = {"python": "3.11", "rlrun": "0.1.0", "torch": "2.13.0"}


def write_trial(
    run: Path, name: str, returns: Sequence[float | None], params: Mapping[str, Any] | None = None, **said: Any
) -> Path:
    """Writes a trial with a row per return, 100 env steps and 2 seconds each.

    Args:
        run: Directory of the trial's run.
        name: Name of the trial.
        returns: Its episode_return_mean by iteration.
        params: The parameters that vary.
        said: `configuration`, `population` for its spec; anything else for its trial.json.
    """
    trial = TrialDirectory(run / name)
    numbers = {key: said.pop(key) for key in ("configuration", "population") if key in said}
    said = {"status": "TERMINATED", "seed": 0, **said}
    trial.write_record(TrialRecord(name=name, params=dict(params or {}), **said))
    trial.write_spec({"name": name, **numbers, "checkpoint": {"best": "episode_return_mean"}})
    rows = [
        {"iteration": n, "env_steps": 100 * n, "time_total_s": 2.0 * n, "episode_return_mean": value}
        for n, value in enumerate(returns, start=1)
    ]
    (trial.path / "result.json").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return trial.path


def write_table(run: Path, spec: Mapping[str, Any] | None = None) -> Path:
    """Writes run.json and spec.yaml for the existing trials."""
    names = sorted(path.parent.name for path in run.glob("*/trial.json"))
    table = RunTable("pole", "2026-01-01T00:00:00+00:00", "rlrun train", "local", (), VERSIONS, tuple(names))
    (run / "run.json").write_text(json.dumps(asdict(table)))
    entry = {"algorithm": "ppo", "env": "CartPole-v1", "stop": {"env_steps": 1000}, **(spec or {})}
    (run / "spec.yaml").write_text(dump_plain_yaml({"pole": entry}))
    return run


@pytest.fixture
def make_sweep(tmp_path: Path) -> Callable[..., Path]:
    """Returns a function that writes a run from a mapping of ``lr`` to the returns of each seed."""

    def make(
        configurations: Mapping[float, Sequence[Sequence[float | None]]],
        name: str = "sweep",
        spec: Mapping[str, Any] | None = None,
    ) -> Path:
        run = tmp_path / "runs" / name
        run.mkdir(parents=True)
        index = 0
        for number, (lr, seeds) in enumerate(configurations.items()):
            for seed, returns in enumerate(seeds):
                write_trial(
                    run, f"{index:03d}-lr={lr}-seed={seed}", returns, {"lr": lr}, configuration=number, seed=seed
                )
                index += 1
        return write_table(run, spec)

    return make


@pytest.fixture
def make_population(tmp_path: Path) -> Callable[..., Path]:
    """Returns a function that writes a run of one population of three members over two generations.

    At generation 1, member 2 copies member 0; at generation 2, member 1 copies member 2.
    """

    def make(name: str = "population") -> Path:
        run = tmp_path / "runs" / name
        run.mkdir(parents=True)
        names = [f"{n:03d}-population=0-member={n}" for n in range(3)]
        courses = [[10, 30, 40, 50, 60, 70], [10, 12, 14, 16, 60, 80], [5, 6, 35, 60, 65, 75]]
        for number, (trial, returns) in enumerate(zip(names, courses, strict=True)):
            write_trial(run, trial, returns, {"lr": 0.1 * (number + 1)}, configuration=number, population=0)
        lines = [
            (0, [(0, None, "initial", 0.1), (1, None, "initial", 0.2), (2, None, "initial", 0.3)]),
            (1, [(0, None, "kept", 0.1), (1, None, "kept", 0.2), (2, 0, "perturbed", 0.12)]),
            (2, [(0, None, "kept", 0.1), (1, 2, "resampled", 0.5), (2, None, "kept", 0.12)]),
        ]
        with (run / "lineage.jsonl").open("w") as file:
            for generation, members in lines:
                records = [
                    {
                        "trial": names[member],
                        "score": None if generation == 0 else float(courses[member][2 * generation - 1]),
                        "env_steps": 200 * generation,
                        "how": how,
                        "parent": None if parent is None else names[parent],
                        "parent_generation": None if parent is None else generation,
                        "params": {"lr": lr},
                    }
                    for member, parent, how, lr in members
                ]
                file.write(json.dumps({"population": 0, "generation": generation, "members": records}) + "\n")
        return write_table(run, {"scheduler": {"pbt": {"metric": "episode_return_mean", "mode": "max"}}})

    return make
