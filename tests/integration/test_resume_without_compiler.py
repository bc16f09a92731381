"""A run with compiled updates, resumed where there is no compiler."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

import rlrun
from rlrun.checkpoint.format import read_checkpoint, write_checkpoint
from rlrun.errors import CompilerMissing
from rlrun.runs.run_directory import RunDirectory

TRIAL = "000-seed=0"
SPEC = {
    "began-compiled": {
        "algorithm": "ppo",
        "env": "CartPole-v1",
        "stop": {"iteration": 2},
        "config": {
            "train_batch_size": 64,
            "min_env_steps_per_iteration": 0,
            "minibatch_size": 32,
            "num_epochs": 1,
            "num_envs_per_worker": 2,
        },
        "checkpoint": {"every": 1},
    }
}


def test_a_resume_without_a_compiler_asks_and_goes_on_once_it_is_told_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (trial,) = rlrun.run(SPEC, runs_dir=tmp_path)
    run = RunDirectory.open(tmp_path / "began-compiled")
    shutil.rmtree(trial.directory / "checkpoints/iteration_000002")
    content = read_checkpoint(trial.directory / "checkpoints/iteration_000001")
    compiled = replace(content, manifest={**content.manifest, "update_executor": "compiled"})
    write_checkpoint(trial.directory / "checkpoints/iteration_000001", compiled)
    run.mark(TRIAL, "INTERRUPTED")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)

    for _ in range(2):  # asking changes nothing
        with pytest.raises(CompilerMissing, match=r"no C\+\+ compiler here.*--eager"):
            rlrun.resume(run.path)
        assert run.record(TRIAL).status == "INTERRUPTED"

    (resumed,) = rlrun.resume(run.path, eager=True)
    assert (resumed.status, resumed.last_result["iteration"]) == ("TERMINATED", 2)
