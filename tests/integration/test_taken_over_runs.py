"""A run whose process is suspended, whose copy another process takes over, and which then continues."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import rlrun
from rlrun.engine.messages.errors import ExitCode
from rlrun.experiments.runs import copy_owner
from rlrun.experiments.runs.events import RunEvent, TrialEvent
from rlrun.experiments.runs.run_upload import fetch_run
from rlrun.experiments.trial.results import read_results
from tests.files import files
from tests.results import all_numbers

OWNER = """
import json, sys
import rlrun
from rlrun.experiments.runs import copy_owner, run_upload
from rlrun.experiments.runs.events import TrialEvent

copy_owner.RENEW_EVERY_S = run_upload.COPY_EVERY_S = 0.05
copy_owner.TRUST_S, copy_owner.PATIENCE_S = 0.0, 600.0
run_upload.SHARE = 1.0

def watch(event):
    if isinstance(event, TrialEvent) and event.result is not None and event.result["iteration"] == 5:
        print("at iteration 5", flush=True)
        sys.stdin.readline()

rlrun.run(json.loads(sys.argv[1]), runs_dir=sys.argv[2], executor="local", watch=watch)
"""


def spec(storage: str | None) -> dict[str, object]:
    config = {
        "train_batch_size": 64,
        "min_env_steps_per_iteration": 0,
        "minibatch_size": 32,
        "num_epochs": 1,
        "num_envs_per_worker": 2,
        "model": {"hiddens": [8]},
    }
    entry = {"algorithm": "ppo", "env": "CartPole-v1", "stop": {"iteration": 8}, "checkpoint": {"every": 2}}
    return {"steady": {**entry, "storage": storage, "config": config}}


def equal(copy: Path, run: Path) -> bool:
    """Whether a copy equals its run, while the owner may be replacing files."""
    try:
        return files(copy) == files(run)
    except FileNotFoundError:
        return False


@pytest.mark.parametrize(
    "continues",
    ["while the new owner runs", pytest.param("after the new owner has ended", marks=pytest.mark.regress)],
)
def test_after_a_takeover_the_suspended_old_owner_writes_nothing_to_the_stored_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, continues: str
) -> None:
    storage = tmp_path / "storage"
    copy = storage / "steady"
    words = [sys.executable, "-c", OWNER, json.dumps(spec(str(storage))), str(tmp_path / "old")]
    pipe = subprocess.PIPE
    with subprocess.Popen(words, text=True, stdin=pipe, stdout=pipe, stderr=pipe) as old:
        assert old.stdout is not None
        assert old.stdout.readline() == "at iteration 5\n"
        while not equal(copy, tmp_path / "old/steady"):
            assert old.poll() is None
            time.sleep(0.05)
        os.kill(old.pid, signal.SIGSTOP)
        os.waitid(os.P_PID, old.pid, os.WSTOPPED)
        monkeypatch.setattr(copy_owner, "GONE_AFTER_S", 0.2)
        monkeypatch.setattr(copy_owner, "POLL_EVERY_S", 0.05)
        fetched = fetch_run(f"file://{copy}", tmp_path / "new")

        def let_the_old_owner_continue() -> str:
            os.kill(old.pid, signal.SIGCONT)
            return old.communicate("\n")[1]

        said: list[str] = []

        def watch(event: RunEvent) -> None:
            if continues == "while the new owner runs" and isinstance(event, TrialEvent) and not said:
                said.append(let_the_old_owner_continue())

        (trial,) = rlrun.resume(fetched, watch=watch)
        ended = files(copy)
        if not said:
            said.append(let_the_old_owner_continue())
    assert (old.returncode, files(copy)) == (ExitCode.TAKEN_OVER, ended)
    (line,) = [line for line in said[0].splitlines() if line.startswith("Error: ")]
    assert str(copy) in line
    assert f"process {os.getpid()} on " in line
    (undisturbed,) = rlrun.run(spec(None), runs_dir=tmp_path / "undisturbed")
    assert all_numbers(trial.results()) == all_numbers(undisturbed.results())
    iterations = [row["iteration"] for row in read_results(tmp_path / "old/steady/000-seed=0")]
    assert (len(trial.results()), iterations) == (8, [1, 2, 3, 4, 5])
