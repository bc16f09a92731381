"""Progress messages of long iterations, in this process and from others."""

import re
import sys
from pathlib import Path

import pytest

from rlrun.experiments.spec.load import parse_experiments
from rlrun.experiments.trial.slow_iterations import PROGRESS_FILE, ProgressMessages, slow_iterations_noted
from rlrun.experiments.trial.trial_loop import TrialLoop

WAITING_ENV = """
import threading
import gymnasium
TOLD = threading.Event()
class Waiting(gymnasium.Env):
    observation_space = gymnasium.spaces.Discrete(2)
    action_space = gymnasium.spaces.Discrete(2)
    steps = 0
    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return 0, {}
    def step(self, action):
        Waiting.steps += 1
        if Waiting.steps == 80:
            assert TOLD.wait(600)
        return 0, 0.0, False, Waiting.steps % 5 == 0, {}
"""


def test_an_iteration_that_takes_a_long_time_reports_its_progress(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "waiting.py").write_text(WAITING_ENV)
    config = {"num_envs_per_worker": 1, "train_batch_size": 64, "minibatch_size": 32, "num_epochs": 1}
    spec = {
        "algorithm": "ppo",
        "env": "waiting:Waiting",
        "stop": {"iteration": 2},
        "config": {**config, "min_env_steps_per_iteration": 0, "compile": False, "model": {"hiddens": [4]}},
    }
    (trial,) = parse_experiments({"slow": spec})[0].trials()
    notes: list[str] = []

    def note(text: str) -> None:
        notes.append(text)
        if text.startswith("iteration 2: "):
            sys.modules["waiting"].TOLD.set()

    with TrialLoop(trial, tmp_path / "trial") as loop, slow_iterations_noted(loop, note, every_s=0.01):
        loop.step()
        loop.step()
        steps = loop.last_result["env_steps"]
    told = next(text for text in notes if text.startswith("iteration 2: "))
    env_steps, sgd_steps = (int(number) for number in re.findall(r"(\d+) (?:env|SGD) steps", told))
    assert 0 < env_steps < steps
    assert sgd_steps == 2


def write(run: Path, trial: str, text: str) -> None:
    (run / trial).mkdir(exist_ok=True)
    (run / trial / PROGRESS_FILE).write_text(text)


def test_a_progress_message_from_another_process_is_read_once(tmp_path: Path) -> None:
    messages = ProgressMessages(tmp_path, every_s=0)
    assert messages.new(["000", "001"]) == {}
    write(tmp_path, "001", "")  # still being written
    assert messages.new(["000", "001"]) == {}
    write(tmp_path, "001", "iteration 2: 40 env steps")
    assert messages.new(["000", "001"]) == {"001": "iteration 2: 40 env steps"}
    assert messages.new(["000", "001"]) == {}
    write(tmp_path, "001", "iteration 2: 80 env steps")
    assert messages.new(["000"]) == {}  # 001 is no longer running
    assert messages.new(["000", "001"]) == {"001": "iteration 2: 80 env steps"}


def test_a_progress_message_older_than_the_latest_result_is_not_shown(tmp_path: Path) -> None:
    messages = ProgressMessages(tmp_path, every_s=0)
    write(tmp_path, "000", "iteration 2: 40 env steps")
    messages.forget("000")  # as when a result of iteration 2 has arrived
    assert messages.new(["000"]) == {}
    write(tmp_path, "000", newer := "iteration 3: 90 env steps")
    assert messages.new(["000"]) == {"000": newer}


def test_a_progress_message_left_by_an_earlier_process_is_not_shown(tmp_path: Path) -> None:
    write(tmp_path, "000", "iteration 2: 40 env steps")
    messages = ProgressMessages(tmp_path, every_s=0)
    messages.forget("000")
    assert messages.new(["000"]) == {}


def test_only_one_of_several_slow_trials_reports_its_progress_at_a_time(tmp_path: Path) -> None:
    messages = ProgressMessages(tmp_path, every_s=1000)
    for trial in ("000", "001"):
        write(tmp_path, trial, "iteration 2: 40 env steps")
    assert messages.new(["000", "001"]) == {"000": "iteration 2: 40 env steps"}
    assert messages.new(["000", "001"]) == {}
