"""Whose a run is, and what one of somebody else may do."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

import rlrun
from rlrun.checkpoint.format import read_checkpoint, write_checkpoint
from rlrun.checkpoint.own_digest import without_digest
from rlrun.errors import CheckpointRefused
from rlrun.runs.run_directory import RunDirectory
from rlrun.runs.strangers import refuse_demands_of_run, why_not_own
from rlrun.spec.load import parse_experiments

SPEC = {"algorithm": "ppo", "env": "CartPole-v1", "stop": {"iteration": 1}}


def new_run(runs_dir: Path) -> RunDirectory:
    (experiment,) = parse_experiments({"pole": SPEC})
    return RunDirectory.create(runs_dir, "pole", experiment, experiment.trials(), "local")


def test_a_run_in_one_s_own_folder_is_one_s_own(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    assert why_not_own(run.path, tmp_path) == ""
    assert why_not_own(run.path, tmp_path / "other") == f"it is not in your folder of runs, {tmp_path / 'other'}"
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "linked").symlink_to(run.path)
    assert why_not_own(tmp_path / "mine" / "linked", tmp_path / "mine") != ""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give a folder away")
def test_a_run_of_another_user_is_not_one_s_own(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    os.chown(run.path, 54321, -1)
    assert why_not_own(run.path, tmp_path) == f"{run.path} belongs to user 54321"
    os.chown(run.path, 0, -1)
    os.chown(tmp_path, 54321, -1)
    assert why_not_own(run.path, tmp_path) == f"{tmp_path} belongs to user 54321"


def test_a_harmless_run_of_a_stranger_goes_on(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    refuse_demands_of_run(run)
    (trial,) = rlrun.resume(run.path, trust=False)
    assert trial.status == "TERMINATED"


def test_a_stranger_s_run_imports_nothing_before_it_is_refused(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    (tmp_path / "trap.py").write_text(f"open({str(tmp_path / 'sprung')!r}, 'w')\nclass PPO: pass\n")
    (file,) = run.path.glob("*/spec.yaml")
    file.write_text(file.read_text().replace("algorithm: ppo", "algorithm: trap:PPO"))
    table = json.loads((run.path / "run.json").read_text())
    table |= {"import_paths": [str(tmp_path)], "copy": "/mnt/copy", "from_checkpoint": "/home/me/x"}
    (run.path / "run.json").write_text(json.dumps(table))
    (run.path / "out").symlink_to("/etc")
    with pytest.raises(CheckpointRefused) as refused:
        rlrun.resume(run.path, trust=False)
    for said in (
        "algorithm trap:PPO is code that would be run",
        "its copy /mnt/copy is a place to write to",
        "from_checkpoint /home/me/x is a file to read",
        "out is a link to another place",
        "--trust",
    ):
        assert said in str(refused.value)
    assert not (tmp_path / "sprung").exists()


def test_what_a_checkpoint_of_a_stranger_s_run_names_is_not_imported_either(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = new_run(tmp_path)
    (trial,) = rlrun.resume(run.path)
    (tmp_path / "trap_too.py").write_text(f"open({str(tmp_path / 'sprung')!r}, 'w')\nclass PPO: pass\n")
    monkeypatch.syspath_prepend(tmp_path)
    content = read_checkpoint(trial.checkpoint)
    altered = replace(content, spec={**content.spec, "algorithm": "trap_too:PPO"})
    shutil.rmtree(trial.checkpoint)
    write_checkpoint(trial.checkpoint, altered)
    with pytest.raises(CheckpointRefused, match="algorithm trap_too:PPO is code that would be run"):
        rlrun.resume(run.path, extend={"iteration": 2}, trust=False)
    assert not (tmp_path / "sprung").exists()


def test_a_stranger_s_search_is_refused(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    file = run.path / "spec.yaml"
    file.write_text(without_digest(file.read_text()).replace("scheduler: null", "scheduler: asha"))
    with pytest.raises(CheckpointRefused, match="scheduler makes trials that nobody can look at beforehand"):
        rlrun.resume(run.path, trust=False)
