"""An algorithm and an env in a user's own files: they are found and train, and their errors are shown as theirs."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from contextlib import chdir
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

import gymnasium
import numpy as np
import pytest
from click.testing import CliRunner, Result
from gymnasium.utils.env_checker import check_env
from numpy.typing import NDArray

from rlrun.cli.main import cli
from rlrun.engine.envs.env_config import EnvConfig
from rlrun.engine.policy.action_spaces.discrete import DiscreteActions
from rlrun.engine.policy.weights import Weights
from rlrun.engine.training.training import Training

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def lab(tmp_path: Path) -> Path:
    """A copy of examples/ that a test may break; `my_lab` is importable from nowhere else."""
    return Path(shutil.copytree(ROOT / "examples", tmp_path / "lab", ignore=shutil.ignore_patterns("__pycache__")))


def rlrun(*words: str | Path, cwd: Path) -> Result:
    """Runs a command in this process; after the test, what it imported from the lab is unloaded."""
    with chdir(cwd):
        return CliRunner().invoke(cli, [str(word) for word in words], env={"RLRUN_RUNS": str(cwd / "runs")})


def fresh_rlrun(*words: str | Path, cwd: Path, python_path: tuple[Path, ...] = ()) -> subprocess.CompletedProcess[str]:
    """Runs a command in a new process, which has imported nothing from the lab."""
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join(map(str, (ROOT, *python_path))),
        "RLRUN_RUNS": str(cwd / "runs"),
    }
    command = [sys.executable, "-m", "rlrun", *map(str, words)]
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=800)


@pytest.fixture
def importable_lab(lab: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The lab as an installed package."""
    monkeypatch.syspath_prepend(lab)
    return lab


def parameters(training: Training, iterations: int) -> bytes:
    """Trains for some iterations and returns the parameters."""
    for _ in range(iterations):
        training.step()
    return training.running.trainee.learner.flat().tobytes()


def lab_module(name: str) -> ModuleType:
    """Returns a module of the lab that imports no other module of the lab."""
    spec = spec_from_file_location(f"{name}_of_the_lab", ROOT / "examples" / "my_lab" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def break_line(path: Path, line: str, broken: str) -> int:
    """Replaces a line of a file and returns its number."""
    text = path.read_text()
    assert text.count(line) == 1
    path.write_text(text.replace(line, broken))
    return text[: text.index(line)].count("\n") + 1


def test_custom_algorithm_learns_in_custom_env(lab: Path, tmp_path: Path) -> None:
    done = rlrun(
        "train",
        "-f",
        lab / "room_awr.yaml",
        "-f",
        lab / "room.yaml",
        "--set",
        "stop.env_steps=30_000",
        "--json",
        cwd=tmp_path,
    )
    assert done.exit_code == 0, done.stderr
    trials = json.loads(done.stdout)["trials"]
    assert [Path(trial["directory"]).parent.name for trial in trials] == ["room-awr", "room-ppo"]
    for trial in trials:
        assert trial["status"] == "TERMINATED"
        rows = [json.loads(line) for line in (Path(trial["directory"]) / "result.json").read_text().splitlines()]
        # A random heater returns about -500 per day, a heater that stays off about -1,000.
        assert rows[0]["episode_return_mean"] < -300
        assert rows[-1]["episode_return_mean"] > -160
        assert rows[-1]["info/comfortable_hours"] > 2 * rows[0]["info/comfortable_hours"]
    assert {"learner/policy_loss", "learner/value_loss", "learner/entropy"} <= trials[0]["last_result"].keys()
    assert "time/ExponentialWeights_s" in trials[0]["last_result"]


def test_a_checkpoint_outside_the_runs_folder_needs_trust_to_use_custom_code(
    lab: Path, tmp_path: Path, wording
) -> None:
    trained = rlrun("train", "-f", lab / "room_awr.yaml", "--set", "stop.env_steps=2_048", cwd=tmp_path)
    assert trained.exit_code == 0, trained.stderr
    own = fresh_rlrun("evaluate", "room-awr", "--episodes", "2", "--json", cwd=tmp_path)
    assert own.returncode == 0, own.stderr
    assert json.loads(own.stdout)["episodes"] == 2

    (checkpoint,) = (tmp_path / "runs" / "room-awr").glob("*/checkpoints/iteration_*")
    elsewhere = Path(shutil.copytree(checkpoint, tmp_path / "received"))
    refused = rlrun("evaluate", elsewhere, "--episodes", "2", cwd=tmp_path)
    assert refused.exit_code == 5
    assert refused.stderr == wording("my_lab.awr:AWR", "my_lab.room:Room")
    assert "--trust" in refused.stderr
    trusted = rlrun("evaluate", elsewhere, "--episodes", "2", "--trust", "--json", cwd=tmp_path)
    assert trusted.exit_code == 0, trusted.stderr
    assert json.loads(trusted.stdout)["returns"] == json.loads(own.stdout)["returns"]


@pytest.mark.usefixtures("importable_lab")
def test_ppo_with_one_changed_loss_term_passes_its_own_test_file_and_trains() -> None:
    import_module("my_lab.test_spo").test_the_spo_objective_peaks_at_ratios_of_1_plus_eps_and_1_minus_eps()
    spo = import_module("my_lab.spo")
    with Training("CartPole-v1", spo.SPO(train_batch_size=256), seed=0) as training:
        first = training.step()
    assert 0 < first["learner/ratio_deviation"] < 1
    assert "learner/clip_fraction" not in first


@pytest.mark.usefixtures("running_ray", "importable_lab")
def test_evolution_strategies_give_the_same_results_with_any_number_of_workers_and_after_a_restore(
    tmp_path: Path,
) -> None:
    es = import_module("my_lab.es")

    def training_with(num_workers: int) -> Training:
        settings = {"num_workers": num_workers, "num_pairs": 4, "min_env_steps_per_iteration": 0}
        return Training(EnvConfig(id="CartPole-v1"), es.ES(es.ESConfig(**settings, model={"hiddens": [4]})), seed=3)

    with training_with(0) as alone:
        first = parameters(alone, 3)
        alone.save(tmp_path / "checkpoint")
        second = parameters(alone, 2)
    with Training.restore(tmp_path / "checkpoint", trust=True) as restored:
        assert parameters(restored, 2) == second
    with training_with(2) as shared:
        assert [parameters(shared, iterations) for iterations in (3, 2)] == [first, second]


OWN_RUNS: dict[str, tuple[str, dict[str, Any], str]] = {
    "awr": (
        "AWR",
        {"train_batch_size": 256, "min_env_steps_per_iteration": 0, "num_envs_per_worker": 4},
        "my_lab.room:Room",
    ),
    "munchausen": (
        "Munchausen",
        {"learning_starts": 100, "num_envs_per_worker": 2, "min_env_steps_per_iteration": 100},
        "CartPole-v1",
    ),
    "d4pg": (
        "D4PG",
        {"learning_starts": 20, "min_env_steps_per_iteration": 10, "minibatch_size": 8, "compile": False},
        "Pendulum-v1",
    ),
    "ppo_es": (
        "PPOES",
        {"train_batch_size": 64, "minibatch_size": 32, "num_envs_per_worker": 4, "min_env_steps_per_iteration": 0},
        "CartPole-v1",
    ),
    "cloning": ("Cloning", {"minibatch_size": 100, "min_env_steps_per_iteration": 3}, "MountainCar-v0"),
}
"""Small runs of custom algorithms by module: the class, its settings, and the env."""


@pytest.mark.usefixtures("importable_lab")
@pytest.mark.parametrize("own", OWN_RUNS)
def test_a_restored_custom_algorithm_continues_exactly(
    own: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    if own == "cloning":
        demonstrate(tmp_path, episodes=2)  # 230 steps: two minibatches of 100 in each pass
    name, settings, env = OWN_RUNS[own]
    plugin = vars(import_module(f"my_lab.{own}"))[name]
    algorithm = plugin(plugin.Config(**settings))
    training = Training(EnvConfig(id=env), algorithm, seed=3)
    parameters(training, 3)
    training.save("checkpoint")
    expected, lr = parameters(training, 2), training.running.trainee.clock.value("lr")
    training.close()
    restored = Training.restore("checkpoint", trust=True)
    assert parameters(restored, 2) == expected
    assert restored.running.trainee.clock.value("lr") == lr
    # AWR adapts its learning rate to the statistics of its updates, so by now it has changed.
    assert (lr == algorithm.config.lr) == (own != "awr")
    restored.close()


def demonstrate(cwd: Path, episodes: int) -> None:
    """Writes demonstrations.npz: a driver that swings the car up the hill."""
    words = ("--policy", "my_lab.mountain_car:push_along", "--env", "MountainCar-v0", "--episodes", str(episodes))
    done = rlrun("demonstrate", *words, cwd=cwd)
    assert done.exit_code == 0, done.stderr


def test_the_custom_off_policy_algorithm_learns_cartpole_with_custom_exploration(lab: Path, tmp_path: Path) -> None:
    spec = lab / "cartpole_munchausen.yaml"
    done = rlrun("train", "-f", spec, "--set", "stop.env_steps=8_000", "--json", cwd=tmp_path)
    assert done.exit_code == 0, done.stderr
    (trial,) = json.loads(done.stdout)["trials"]
    assert trial["last_result"]["evaluation/episode_return_mean"] > 100  # 20 at random
    assert {"learner/loss", "learner/q_mean", "learner/epsilon"} <= trial["last_result"].keys()


def test_the_plan_of_the_custom_off_policy_algorithm_lists_its_operators_in_order(lab: Path, tmp_path: Path) -> None:
    done = rlrun("plan", "-f", lab / "cartpole_munchausen.yaml", cwd=tmp_path)
    assert done.exit_code == 0, done.stderr
    found = [
        name
        for line in done.stdout.splitlines()
        for name in ("StoreToReplay", "replay_minibatches", "TrainOnMinibatch", "Broadcast")
        if name in line
    ]
    assert found == ["StoreToReplay", "replay_minibatches", "TrainOnMinibatch", "Broadcast"]


def test_custom_network_learns_in_custom_env(lab: Path, tmp_path: Path) -> None:
    spec = lab / "room_net.yaml"
    done = rlrun("train", "-f", spec, "--set", "stop.env_steps=20_000", "--json", cwd=tmp_path)
    assert done.exit_code == 0, done.stderr
    (trial,) = json.loads(done.stdout)["trials"]
    assert trial["last_result"]["episode_return_mean"] > -120


def test_custom_encoder_learns_from_one_of_two_cameras(lab: Path, tmp_path: Path) -> None:
    spec = lab / "cameras.yaml"
    spec.write_text(
        "cameras: {algorithm: ppo, env: 'rlrun.toys:TwoCameras', stop: {iteration: 1}, config: "
        "{num_envs_per_worker: 4, train_batch_size: 64, minibatch_size: 32, num_epochs: 1, compile: false, "
        "min_env_steps_per_iteration: 32, model: {encoders: {front: 'my_lab.nets:Camera'}}}}"
    )
    done = rlrun("train", "-f", spec, "--json", cwd=tmp_path)
    assert done.exit_code == 0, done.stderr
    (trial,) = json.loads(done.stdout)["trials"]
    assert trial["last_result"]["sgd_steps"] > 0
    shown = rlrun("show", tmp_path / "runs" / "cameras", cwd=tmp_path).stdout
    assert "observations front: shape 24x20x3, encoded by my_lab.nets:Camera into 64 features" in shown


def test_a_policy_cloned_from_a_recorded_driver_reaches_about_the_drivers_return(
    importable_lab: Path, tmp_path: Path
) -> None:
    demonstrate(tmp_path, episodes=20)
    done = rlrun("train", "-f", importable_lab / "mountain_car_cloning.yaml", "--json", cwd=tmp_path)
    assert done.exit_code == 0, done.stderr
    (trial,) = json.loads(done.stdout)["trials"]
    assert (trial["last_result"]["env_steps"], trial["last_result"]["sgd_steps"]) == (0, 1000)
    assert trial["last_result"]["evaluation/episode_return_mean"] > -130  # the driver returns -117, random actions -200


def test_plan_shows_a_custom_operator_between_the_built_in_ones(lab: Path, tmp_path: Path) -> None:
    done = rlrun("plan", "-f", lab / "room_awr.yaml", cwd=tmp_path)
    assert done.exit_code == 0, done.stderr
    lines = done.stdout.splitlines()
    own = next(index for index, line in enumerate(lines) if "ExponentialWeights" in line)
    assert lines[own].strip() == "-> ExponentialWeights(temperature=0.5, max_weight=20.0)"
    assert "Standardize" in lines[own - 1]
    assert "TrainOnBatch" in lines[own + 1]
    assert lines[own + 2].strip() == "-> AdaptLearningRate(kl_target=0.01)"


def test_custom_settings_are_printed_with_their_docstrings(importable_lab: Path) -> None:
    done = rlrun("config", "my_lab.awr:AWR", "--all", cwd=importable_lab)
    assert done.exit_code == 0, done.stderr
    assert "# Bound of the weights." in done.stdout
    assert "max_weight: 20.0" in done.stdout


def test_an_entry_point_lets_specs_use_a_custom_algorithm_by_a_short_name(lab: Path, tmp_path: Path) -> None:
    installed = lab / "my_lab-1.0.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: my-lab\nVersion: 1.0\n")
    (installed / "entry_points.txt").write_text("[rlrun.algorithms]\nawr = my_lab.awr:AWR\n")
    spec = tmp_path / "named.yaml"
    spec.write_text("by-name: {algorithm: awr, env: CartPole-v1, stop: {env_steps: 256}, config: {temperature: 1}}\n")
    done = fresh_rlrun("train", "-f", spec, cwd=tmp_path, python_path=(lab,))
    assert done.returncode == 0, done.stderr
    (checkpoint,) = (tmp_path / "runs" / "by-name").glob("*/checkpoints/iteration_*")
    received = shutil.copytree(checkpoint, tmp_path / "received")
    evaluated = fresh_rlrun("evaluate", received, "--episodes", "1", cwd=tmp_path, python_path=(lab,))
    assert evaluated.returncode == 0, evaluated.stderr  # an installed algorithm needs no --trust


def test_an_error_in_a_custom_env_is_shown_with_its_traceback_and_episode(lab: Path, tmp_path: Path) -> None:
    step = "self._quarter += 1\n"
    line = break_line(lab / "my_lab" / "room.py", step, 'raise RuntimeError("the heater is broken")\n')
    done = rlrun("train", "-f", lab / "room_awr.yaml", "--set", "stop.env_steps=2_048", cwd=tmp_path)
    assert done.exit_code == 4
    assert f'room.py", line {line}, in step' in done.stderr
    assert "RuntimeError: the heater is broken" in done.stderr
    assert "worker 0" in done.stderr
    assert "env 0" in done.stderr
    assert "seed" in done.stderr
    assert "/rlrun/" not in done.stderr  # no frames of rlrun


def test_an_error_in_a_custom_loss_is_shown_with_its_traceback(lab: Path, tmp_path: Path) -> None:
    text = 'valid = batch["valid"].float()\n'
    line = break_line(lab / "my_lab" / "awr.py", text, 'valid = batch["vlaid"].float()\n')
    done = rlrun("train", "-f", lab / "room_awr.yaml", "--set", "stop.env_steps=2_048", cwd=tmp_path)
    assert done.exit_code == 4
    assert f'awr.py", line {line}, in loss' in done.stderr
    assert "KeyError: 'vlaid'" in done.stderr


def test_the_error_for_a_module_that_cannot_be_imported_shows_its_traceback(lab: Path, tmp_path: Path) -> None:
    line = break_line(lab / "my_lab" / "room.py", "import math\n", "import no_such_package_here\n")
    done = rlrun("validate", lab / "room_awr.yaml", cwd=tmp_path)
    assert done.exit_code == 4
    assert f'room.py", line {line}, in <module>' in done.stderr
    assert "No module named 'no_such_package_here'" in done.stderr


def test_naming_an_object_missing_from_the_custom_module_is_a_spec_error(lab: Path, tmp_path: Path, wording) -> None:
    break_line(lab / "room_awr.yaml", "  algorithm: my_lab.awr:AWR\n", "  algorithm: my_lab.awr:AWRR\n")
    done = rlrun("validate", lab / "room_awr.yaml", cwd=tmp_path)
    assert done.exit_code == 2
    assert "room_awr.yaml:4:14: room-awr.algorithm: " in done.stderr
    assert done.stderr == wording("AWR")


def test_the_room_env_passes_gymnasiums_env_checker() -> None:
    module = lab_module("room")
    env = module.Room()
    check_env(env, skip_render_check=True)
    env.reset(seed=3)
    steps = [env.step(env.action_space.high) for _ in range(96)]
    assert [truncated for _, _, _, truncated, _ in steps] == [False] * 95 + [True]
    assert not any(terminated for _, _, terminated, _, _ in steps)
    assert set(steps[-1][4]) == {"comfortable_hours"}


@pytest.mark.regress
def test_evolution_strategies_with_a_custom_worker_solve_cartpole(lab: Path, tmp_path: Path) -> None:
    done = rlrun("train", "-f", lab / "cartpole_es.yaml", "--json", cwd=tmp_path)
    assert done.exit_code == 0, done.stderr
    (trial,) = json.loads(done.stdout)["trials"]
    assert trial["last_result"]["episode_return_mean"] >= 475  # the last 100 episodes, played by perturbed policies
    assert trial["last_result"]["evaluation/episode_return_mean"] >= 475
    assert trial["last_result"]["iteration"] < 40


def exploration_noise(*steps: tuple[float, float, float]) -> NDArray[np.float32]:
    """Noise of the custom exploration in one env slot, [T, 1, 3]: whether to explore, with which action, how long."""
    return np.array(steps, np.float32)[:, None]


def custom_exploration(epsilon: float) -> Any:
    """The custom exploration of four actions; a repetition takes 1 step for draws up to 144/205, 2 up to 180/205."""
    exploration = lab_module("ez_greedy").EZGreedy(
        DiscreteActions(gymnasium.spaces.Discrete(4)), mu=2.0, max_duration=4
    )
    exploration.load(Weights(0, np.zeros(0, np.float32), schedules={"epsilon": epsilon}))
    return exploration


def explored(exploration: Any, noise: NDArray[np.float32], starts: Sequence[int] = ()) -> list[int]:
    """Returns the actions of one env slot in which action 0 is the best."""
    outputs = {"outputs": np.array([[1, 0, 0, 0]], np.float32)}
    return [
        int(exploration.explore(lambda: outputs, step, np.array([t in starts]), None, None)[0])
        for t, step in enumerate(noise)
    ]


def test_custom_exploration_repeats_an_action_for_the_drawn_number_of_steps() -> None:
    best, twice, once = (0.9, 0.3, 0.8), (0.1, 0.6, 0.8), (0.1, 0.9, 0.7)
    noise = exploration_noise(best, twice, twice, once, best, twice, best)
    assert explored(custom_exploration(0.5), noise) == [0, 2, 2, 3, 0, 2, 2]
    assert explored(custom_exploration(0.0), noise) == [0] * 7
    assert explored(custom_exploration(0.5), noise, starts=(6,)) == [0, 2, 2, 3, 0, 2, 0]  # no repeats in a new episode


def test_custom_exploration_draws_allowed_actions_and_stops_repeating_forbidden_ones() -> None:
    exploration, masks = custom_exploration(0.5), np.array([[0, 1, 1, 0], [0, 1, 1, 0], [1, 1, 0, 1]])
    noise = exploration_noise((0.1, 0.6, 0.9), (0.9, 0.6, 0.9), (0.9, 0.6, 0.9))
    none = np.array([False])
    found = [
        int(exploration.explore(lambda: {"outputs": np.array([[0, 1, 0, 0]])}, step, none, None, mask[None])[0])
        for step, mask in zip(noise, masks, strict=True)
    ]
    assert found == [2, 2, 1]


def test_restored_custom_exploration_continues_repetitions_including_those_of_idle_slots() -> None:
    noise = exploration_noise((0.1, 0.6, 0.8), (0.9, 0.6, 0.8), (0.9, 0.6, 0.8))
    first, restored = custom_exploration(0.5), custom_exploration(0.5)
    assert explored(first, noise[:1]) == [2]
    first.explore(lambda: {"outputs": np.zeros((1, 4))}, noise[1], np.array([False]), np.array([False]), None)
    restored.load_state(first.state())
    assert explored(restored, noise[1:]) == explored(first, noise[1:]) == [2, 0]


@pytest.mark.usefixtures("importable_lab")
def test_members_of_a_generation_start_near_a_center_that_moves_to_their_weighted_mean() -> None:
    module = import_module("my_lab.ppo_es")
    settings = {"train_batch_size": 64, "minibatch_size": 32, "num_envs_per_worker": 4, "compile": False}
    algorithm = module.PPOES(**settings, lr=0.0, population_size=2, sigma=0.5, min_env_steps_per_iteration=0)
    training = Training(EnvConfig(id="CartPole-v1"), algorithm, seed=3)
    learner = training.running.trainee.learner
    flats, centers, returns = [learner.flat()], [], []
    for _ in range(3):
        training.step()
        flats.append(learner.flat())
        state = training.running.flow.state()["operators"]["Evolve"]["operator"]
        centers.append(np.array(state["center"]))
        returns.append(list(state["returns"]))
    training.close()
    np.testing.assert_array_equal(centers[0], flats[0])  # with a learning rate of 0, PPO moves nothing
    np.testing.assert_array_equal(centers[1], flats[0])
    assert [len(found) for found in returns] == [0, 1, 0]
    ratio = (centers[2] - flats[1]) / (flats[2] - flats[1])  # position of the center between the two members
    assert min(abs(np.median(ratio) - share) for share in (1 / 3, 2 / 3)) < 1e-3
    assert np.std(flats[3] - centers[2]) == pytest.approx(0.5, rel=0.05)
