"""A run with compiled updates or kernels, resumed without a compiler or on another processor."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import rlrun
from rlrun.engine.checkpoint.format import read_checkpoint, write_checkpoint
from rlrun.engine.kernels import steps
from rlrun.engine.kernels.library import why_no_library
from rlrun.engine.messages.errors import CompilerMissing
from rlrun.engine.training import rounding
from rlrun.experiments.runs.run_directory import RunDirectory

TRIAL = "000-seed=0"
SMALL = {
    "train_batch_size": 64,
    "min_env_steps_per_iteration": 0,
    "minibatch_size": 32,
    "num_epochs": 1,
    "num_envs_per_worker": 2,
}
SPEC: dict[str, Any] = {
    "began-compiled": {
        "algorithm": "ppo",
        "env": "CartPole-v1",
        "stop": {"iteration": 2},
        "config": SMALL,
        "checkpoint": {"every": 1},
    }
}


def interrupted(runs_dir: Path, spec: dict[str, Any] = SPEC, **manifest: str) -> RunDirectory:
    """Runs two iterations, and keeps only the first one's checkpoint, with changed entries in its manifest."""
    (trial,) = rlrun.run(spec, runs_dir=runs_dir)
    run = RunDirectory.open(runs_dir / "began-compiled")
    shutil.rmtree(trial.directory / "checkpoints/iteration_000002")
    content = read_checkpoint(trial.directory / "checkpoints/iteration_000001")
    changed = replace(content, manifest={**content.manifest, **manifest})
    write_checkpoint(trial.directory / "checkpoints/iteration_000001", changed)
    run.mark(TRIAL, "INTERRUPTED")
    return run


def test_resuming_a_compiled_run_without_a_compiler_fails_unless_eager(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    half = {"began-compiled": {**SPEC["began-compiled"], "config": {**SMALL, "precision": "bfloat16"}}}
    run = interrupted(tmp_path, half, update_executor="compiled")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)

    for _ in range(2):  # the first refusal changes nothing
        with pytest.raises(CompilerMissing, match=r"no C\+\+ compiler.*--eager"):
            rlrun.resume(run.path)
        assert run.record(TRIAL).status == "INTERRUPTED"

    (resumed,) = rlrun.resume(run.path, eager=True)
    assert (resumed.status, resumed.last_result["iteration"]) == ("TERMINATED", 2)


@pytest.mark.skipif(why_no_library() != "", reason=why_no_library())
def test_a_resume_on_a_different_processor_is_exact_only_if_kernels_computed_all_products(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = interrupted(tmp_path / "alone")
    monkeypatch.setattr(steps, "LARGEST_OWN_PRODUCT", 1_000)
    with_blas = interrupted(tmp_path / "with BLAS")
    monkeypatch.setattr(rounding, "key", lambda: "another processor")
    records = [rlrun.resume(run.path)[0].record for run in (alone, with_blas)]
    assert [record is not None and record.exact_resume for record in records] == [True, False]


@pytest.mark.skipif(why_no_library() != "", reason=why_no_library())
def test_a_resume_of_a_run_that_used_another_processors_kernels_is_recorded_as_inexact(tmp_path: Path) -> None:
    exact = rlrun.resume(interrupted(tmp_path / "same").path)[0].directory
    other = rlrun.resume(interrupted(tmp_path / "other", kernels="those of another processor").path)[0].directory
    records = [json.loads((directory / "trial.json").read_text()) for directory in (exact, other)]
    assert [record["exact_resume"] for record in records] == [True, False]
