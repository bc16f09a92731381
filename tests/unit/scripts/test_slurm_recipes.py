"""The Slurm job scripts are valid, as far as a machine without Slurm can tell, and the lab says what it lacks."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from scripts import slurm_lab
from tests.command import rlrun

ROOT = Path(__file__).resolve().parents[3]
FOLDER = ROOT / "examples" / "slurm"
RECIPES = sorted(FOLDER.glob("*.sbatch"))
VARIABLES = {
    "$head:$port": "10.0.0.1:6379",
    "$SLURM_ARRAY_TASK_ID/$SLURM_ARRAY_TASK_COUNT": "0/2",
}


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda path: path.stem)
def test_a_job_script_is_valid_shell_and_calls_rlrun_with_known_options(recipe: Path, own_folder: Path) -> None:
    checked = subprocess.run(["bash", "-n", recipe], capture_output=True, text=True)
    assert (checked.returncode, checked.stderr) == (0, "")
    (line,) = re.findall(r"^(?:exec )?rlrun (train \"\$@\".*?)(?: &)?$", recipe.read_text(), re.MULTILINE)
    words = [VARIABLES.get(word, word) for word in shlex.split(line) if word != "$@"]
    assert not [word for word in words if "$" in word]
    planned = rlrun(*words, ROOT / "examples" / "cartpole.yaml", "--dry-run")
    assert planned.exit_code == 0, planned.output
    assert list(own_folder.iterdir()) == []


@pytest.mark.parametrize("page", ["examples/README.md", "docs/clusters.md"])
def test_each_page_on_slurm_names_all_job_scripts_and_no_others(page: str) -> None:
    named = set(re.findall(r"\b\w+\.sbatch\b", (ROOT / page).read_text()))
    assert named == {path.name for path in RECIPES}


def test_starting_a_lab_without_its_programs_or_querying_a_missing_lab_fails_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["slurm_lab", "status", str(tmp_path)])
    with pytest.raises(SystemExit) as ended:
        slurm_lab.main()
    assert str(ended.value.code).endswith(f"{tmp_path} has no lab")
    monkeypatch.setattr(slurm_lab, "PROGRAMS", {"no-such-munged": "munge", "no-such-slurmd": "slurmd"})
    monkeypatch.setattr(sys, "argv", ["slurm_lab", "start", str(tmp_path)])
    with pytest.raises(SystemExit) as refused:
        slurm_lab.main()
    assert str(refused.value.code).endswith("munge slurmd")
    assert list(tmp_path.iterdir()) == []


def test_the_error_after_waiting_for_nodes_that_never_join_gives_the_number_of_nodes() -> None:
    words = [sys.executable, FOLDER / "wait_for_nodes.py", "127.0.0.1:9", "2", "0"]
    ended = subprocess.run(words, capture_output=True, text=True)
    assert (ended.returncode, "0 of 2" in ended.stderr, "Traceback" in ended.stderr) == (1, True, False)
