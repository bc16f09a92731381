"""An algorithm and an env in a user's own files: they train, they are found, and what they raise is shown as theirs."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest
from gymnasium.utils.env_checker import check_env

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def lab(tmp_path: Path) -> Path:
    """A copy of examples/ that a test may break; `my_lab` is importable from nowhere else."""
    return Path(shutil.copytree(ROOT / "examples", tmp_path / "lab", ignore=shutil.ignore_patterns("__pycache__")))


def rlrun(*words: str | Path, cwd: Path, python_path: tuple[Path, ...] = ()) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join(map(str, (ROOT, *python_path))),
        "RLRUN_RUNS": str(cwd / "runs"),
    }
    command = [sys.executable, "-m", "rlrun", *map(str, words)]
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=240)


def break_line(path: Path, line: str, broken: str) -> int:
    """Replaces a line of a file and returns its number."""
    text = path.read_text()
    assert text.count(line) == 1
    path.write_text(text.replace(line, broken))
    return text[: text.index(line)].count("\n") + 1


def test_own_algorithm_learns_in_own_env(lab: Path, tmp_path: Path) -> None:
    done = rlrun("train", "-f", lab / "room.yaml", "--set", "stop.env_steps=30_000", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    trials = json.loads(done.stdout)
    assert [Path(trial["directory"]).parent.name for trial in trials] == ["room-awr", "room-ppo"]
    for trial in trials:
        assert trial["status"] == "TERMINATED"
        rows = [json.loads(line) for line in (Path(trial["directory"]) / "result.json").read_text().splitlines()]
        # A random heater ends its days near -500, one that is off near -1,000.
        assert rows[0]["episode_return_mean"] < -300
        assert rows[-1]["episode_return_mean"] > -160
        assert rows[-1]["info/comfortable_hours"] > 2 * rows[0]["info/comfortable_hours"]
    assert {"learner/policy_loss", "learner/value_loss", "learner/entropy"} <= trials[0]["last_result"].keys()
    assert "time/ExponentialWeights_s" in trials[0]["last_result"]


def test_own_checkpoint_is_followed_in_ones_own_runs_and_elsewhere_only_when_trusted(lab: Path, tmp_path: Path) -> None:
    trained = rlrun("train", "-f", lab / "room.yaml", "--set", "stop.env_steps=2_048", cwd=tmp_path)
    assert trained.returncode == 0, trained.stderr
    own = rlrun("evaluate", "room-awr", "--episodes", "2", "--json", cwd=tmp_path)
    assert own.returncode == 0, own.stderr
    assert json.loads(own.stdout)["episodes"] == 2

    (checkpoint,) = (tmp_path / "runs" / "room-awr").glob("*/checkpoints/iteration_*")
    elsewhere = Path(shutil.copytree(checkpoint, tmp_path / "received"))
    refused = rlrun("evaluate", elsewhere, "--episodes", "2", cwd=tmp_path)
    assert refused.returncode == 5
    assert "my_lab.awr:AWR, my_lab.room:Room" in refused.stderr
    assert "--trust" in refused.stderr
    trusted = rlrun("evaluate", elsewhere, "--episodes", "2", "--trust", "--json", cwd=tmp_path, python_path=(lab,))
    assert trusted.returncode == 0, trusted.stderr
    assert json.loads(trusted.stdout)["returns"] == json.loads(own.stdout)["returns"]


def test_evolution_strategies_come_to_the_same_with_any_number_of_workers_and_after_a_restore(
    lab: Path, tmp_path: Path
) -> None:
    program = f"""
from my_lab.es import ES, ESConfig
from rlrun.envs.env_config import EnvConfig
from rlrun.training.training import Training

def parameters(training, generations):
    for _ in range(generations):
        training.step()
    return training.trainee.learner.flat().tobytes()

found = []
for num_workers in (0, 3):
    config = ESConfig(num_workers=num_workers, num_pairs=4, model={{"hiddens": [4]}})
    training = Training(EnvConfig(id="CartPole-v1"), ES(config), seed=3)
    found.append(parameters(training, 3))
    if num_workers == 3:
        training.save({str(tmp_path / "checkpoint")!r})
        expected = parameters(training, 2)
    training.close()
restored = Training.restore({str(tmp_path / "checkpoint")!r}, trust=True)
print(len(set(found)), parameters(restored, 2) == expected)
restored.close()
"""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, (ROOT, lab)))}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["1", "True"]


def test_plan_shows_the_own_operator_between_the_built_in_ones(lab: Path, tmp_path: Path) -> None:
    done = rlrun("plan", "-f", lab / "room.yaml", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    own = next(index for index, line in enumerate(lines) if "ExponentialWeights" in line)
    assert lines[own].strip() == "-> ExponentialWeights(temperature=0.5, max_weight=20.0)"
    assert "Standardize" in lines[own - 1]
    assert "TrainOnBatch" in lines[own + 1]


def test_own_settings_are_printed_with_their_docstrings(lab: Path) -> None:
    done = rlrun("config", "my_lab.awr:AWR", cwd=lab, python_path=(lab,))
    assert done.returncode == 0, done.stderr
    assert "# Bound of the weights." in done.stdout
    assert "max_weight: 20.0" in done.stdout


def test_an_entry_point_gives_the_own_algorithm_a_plain_name(lab: Path, tmp_path: Path) -> None:
    installed = lab / "my_lab-1.0.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: my-lab\nVersion: 1.0\n")
    (installed / "entry_points.txt").write_text("[rlrun.algorithms]\nawr = my_lab.awr:AWR\n")
    spec = tmp_path / "named.yaml"
    spec.write_text("by-name: {algorithm: awr, env: CartPole-v1, stop: {env_steps: 256}, config: {temperature: 1}}\n")
    listed = rlrun("algorithms", cwd=tmp_path, python_path=(lab,))
    assert "awr" in listed.stdout
    done = rlrun("validate", spec, cwd=tmp_path, python_path=(lab,))
    assert done.returncode == 0, done.stderr


def test_an_error_in_the_own_env_shows_its_own_traceback_and_where_it_was(lab: Path, tmp_path: Path) -> None:
    step = "self._quarter += 1\n"
    line = break_line(lab / "my_lab" / "room.py", step, 'raise RuntimeError("the heater is broken")\n')
    done = rlrun("train", "-f", lab / "room.yaml", "--set", "stop.env_steps=2_048", cwd=tmp_path)
    assert done.returncode == 4
    assert f'room.py", line {line}, in step' in done.stderr
    assert "RuntimeError: the heater is broken" in done.stderr
    assert "worker 0" in done.stderr
    assert "env 0" in done.stderr
    assert "seed" in done.stderr
    assert "/rlrun/" not in done.stderr  # no frame of ours


def test_an_error_in_the_own_loss_shows_its_own_traceback(lab: Path, tmp_path: Path) -> None:
    text = 'valid = batch["valid"].float()\n'
    line = break_line(lab / "my_lab" / "awr.py", text, 'valid = batch["vlaid"].float()\n')
    done = rlrun("train", "-f", lab / "room.yaml", "--set", "stop.env_steps=2_048", cwd=tmp_path)
    assert done.returncode == 4
    assert f'awr.py", line {line}, in loss' in done.stderr
    assert "KeyError: 'vlaid'" in done.stderr


def test_a_module_that_cannot_be_imported_shows_the_traceback_of_its_import(lab: Path, tmp_path: Path) -> None:
    line = break_line(lab / "my_lab" / "room.py", "import math\n", "import no_such_package_here\n")
    done = rlrun("validate", lab / "room.yaml", cwd=tmp_path)
    assert done.returncode == 4
    assert f'room.py", line {line}, in <module>' in done.stderr
    assert "No module named 'no_such_package_here'" in done.stderr


def test_a_name_that_is_not_in_the_own_module_is_a_mistake_in_the_spec(lab: Path, tmp_path: Path) -> None:
    break_line(lab / "room.yaml", "  algorithm: my_lab.awr:AWR\n", "  algorithm: my_lab.awr:AWRR\n")
    done = rlrun("validate", lab / "room.yaml", cwd=tmp_path)
    assert done.returncode == 2
    assert "room.yaml:4:14: room-awr.algorithm: " in done.stderr
    assert "did you mean 'AWR'?" in done.stderr


def test_the_room_is_an_env_by_gymnasiums_own_rules() -> None:
    spec = spec_from_file_location("room_of_the_lab", ROOT / "examples" / "my_lab" / "room.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)

    env = module.Room()
    check_env(env, skip_render_check=True)
    env.reset(seed=3)
    steps = [env.step(env.action_space.high) for _ in range(96)]
    assert [truncated for _, _, _, truncated, _ in steps] == [False] * 95 + [True]
    assert not any(terminated for _, _, terminated, _, _ in steps)
    assert set(steps[-1][4]) == {"comfortable_hours"}


def test_evolution_strategies_with_a_worker_of_their_own_solve_cartpole(lab: Path, tmp_path: Path) -> None:
    done = rlrun("train", "-f", lab / "cartpole_es.yaml", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    (trial,) = json.loads(done.stdout)
    assert trial["last_result"]["episode_return_mean"] >= 475  # the 100 last episodes, of perturbed policies
    assert trial["last_result"]["evaluation/episode_return_mean"] >= 475
    assert trial["last_result"]["iteration"] < 40
