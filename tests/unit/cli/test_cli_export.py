"""``rlrun export``: files with which other programs act, and what is refused."""

from __future__ import annotations

import importlib.util
import json
import subprocess
from pathlib import Path
from types import ModuleType

import numpy as np
import onnxruntime
import pytest
from gymnasium.spaces import Box, Discrete

from rlrun import PPO, Training
from rlrun.algorithms.alphazero.alphazero import AlphaZero
from rlrun.engine.algorithm_config import WorldSamplingSettings
from rlrun.engine.datasets.writer import SetWriter
from rlrun.engine.kernels.library import compiler
from rlrun.engine.training.assemble.policies import Policies
from tests.command import rlrun

EXAMPLES = Path(__file__).parents[3] / "examples" / "exported"
DENSE = {"hiddens": (4,), "activation": "tanh"}


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint `dense`, and a checkpoint `lstm` for Pendulum."""
    folder = tmp_path_factory.mktemp("saved")
    recurrent = {"hiddens": (4,), "core": "lstm", "core_width": 3}
    for name, env, model in (("dense", "CartPole-v1", DENSE), ("lstm", "Pendulum-v1", recurrent)):
        with Training(env, PPO(model=model, compile=False), seed=1) as training:
            training.save(folder / name)
    return folder


def example(name: str) -> ModuleType:
    """An example's module."""
    found = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


def test_an_exported_policy_acts_identically_in_a_program_that_uses_only_onnxruntime(
    saved: Path, tmp_path: Path
) -> None:
    file = tmp_path / "policy.onnx"
    found = json.loads(rlrun("export", saved / "lstm", "-o", file, "--json").stdout)
    assert found["file"] == str(file)
    assert found["inputs"]["state_in"] == {"dtype": "float32", "shape": [12]}
    assert found["outputs"]["action"] == {"dtype": "float32", "shape": [1]}
    # Pendulum's episodes take 200 steps, so each of the seven slots begins a second one halfway.
    assert found["compared"]["observations"] == 7 * 143
    assert found["compared"]["episodes"] == 14
    with Training.restore(saved / "lstm", for_training=False) as training:
        returns, acting = [], training.acting.policy()
        env = example("with_onnxruntime").gymnasium.make("Pendulum-v1")
        for episode in range(2):
            observation, _ = env.reset(seed=episode)
            rewards, starts, ended = [], True, False
            while not ended:
                action = acting.act(observation, episode_start=starts)
                observation, reward, terminated, truncated, _ = env.step(action)
                rewards.append(reward)
                starts, ended = False, terminated or truncated
            returns.append(sum(rewards))
    assert example("with_onnxruntime").returns(str(file), 2) == pytest.approx(returns, rel=1e-4)


def test_exported_metadata_contain_the_env_spaces_env_steps_noise_and_spec_hash(saved: Path, tmp_path: Path) -> None:
    file = tmp_path / "policy.onnx"
    done = rlrun("export", saved / "dense", "-o", file, "--actions", "sampled")
    assert "matches the policy on" in done.stdout
    metadata = onnxruntime.InferenceSession(file).get_modelmeta().custom_metadata_map
    assert metadata["env"] == "CartPole-v1"
    assert metadata["env_steps"] == "0"
    assert json.loads(metadata["action_space"])["n"] == 2
    assert json.loads(metadata["noise"]) == {"noise": "exponential"}
    assert len(metadata["spec_sha256"]) == 64


def test_the_numpy_and_c_examples_for_exported_policies_act_like_the_policy(saved: Path, tmp_path: Path) -> None:
    rlrun("export", saved / "dense", "-o", tmp_path / "policy.c", "--to", "c")
    program = tmp_path / "act"
    sources = [str(EXAMPLES / "act.c"), str(tmp_path / "policy.c")]
    subprocess.run([compiler(), *sources, "-lm", "-o", str(program)], check=True, timeout=120)
    observations = np.random.default_rng(0).normal(size=(20, 4)).astype(np.float32)
    text = "\n".join(" ".join(map(str, row)) for row in observations)
    printed = subprocess.run([program], input=text, capture_output=True, text=True, check=True, timeout=60).stdout
    with Training.restore(saved / "dense", for_training=False) as training:
        acted = [int(training.acting.policy().act(row)) for row in observations]
    assert [int(line) for line in printed.split()] == acted
    weights = example("with_numpy").tensors(saved / "dense" / "policies" / "default.safetensors")
    assert [int(example("with_numpy").logits(weights, row).argmax()) for row in observations] == acted
    assert set(acted) == {0, 1}


def test_an_exported_file_can_be_compared_with_its_policy_on_a_data_set(saved: Path, tmp_path: Path) -> None:
    draws = np.random.default_rng(0)
    with SetWriter(tmp_path / "set", Box(-np.inf, np.inf, (4,)), Discrete(2)) as writer:
        for _ in range(5):
            writer.add_episode(
                {
                    "obs": draws.normal(size=(8, 4)).astype(np.float32),
                    "actions": draws.integers(2, size=7),
                    "rewards": np.ones(7),
                    "terminateds": np.zeros(7, np.bool_),
                    "truncateds": np.arange(7) == 6,
                }
            )
    done = rlrun("export", saved / "dense", "-o", tmp_path / "policy.onnx", "--data", tmp_path / "set", "--json")
    assert json.loads(done.stdout)["compared"]["observations"] == 35


def test_an_unknown_policy_is_refused_and_nothing_is_written(saved: Path, tmp_path: Path, wording) -> None:
    done = rlrun("export", saved / "dense", "-o", tmp_path / "policy.onnx", "--policy", "defualt")
    assert done.exit_code == 2
    assert done.stderr == wording("defualt", "default")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("name", "to", "advice"),
    [
        ("p.onx", "onnx", "did you mean {folder}/p.onnx?"),
        ("p", "c", "did you mean {folder}/p.c?"),
        ("p.c", "onnx", "use --to c"),
        ("p.onnx", "c", "use --to onnx"),
    ],
)
def test_a_file_suffix_that_does_not_match_the_format_is_refused_with_a_suggestion(
    saved: Path, tmp_path: Path, name: str, to: str, advice: str, wording
) -> None:
    done = rlrun("export", saved / "dense", "-o", tmp_path / name, "--to", to)
    assert done.exit_code == 2
    said = " ".join(done.stderr.split())
    assert said == wording(name, to, advice.format(folder=tmp_path))
    assert not list(tmp_path.iterdir())


def test_a_policy_of_a_world_can_be_chosen_for_export_by_its_name(tmp_path: Path) -> None:
    world = {"world": "rlrun.toys:CartPoles", "kwargs": {"num_agents": 2}}
    own = {"hiddens": (4,), "views": {"prev_actions": 1}}
    learners = {"plain": PPO(model=DENSE, compile=False), "viewing": PPO(model=own, compile=False)}
    policies = Policies(learners, WorldSamplingSettings(), mapping={"pole_0": "plain", "*": "viewing"})
    with Training(world, policies, seed=1) as training:
        training.save(tmp_path / "world")
    words = ("export", tmp_path / "world", "-o", tmp_path / "policy.onnx", "--json")
    found = json.loads(rlrun(*words, "--policy", "viewing").stdout)
    assert found["metadata"]["policy"] == "viewing"
    assert list(found["inputs"]) == ["obs", "prev_actions_in", "episode_start"]
    assert list(json.loads(rlrun(*words).stdout)["inputs"]) == ["obs"]


def test_exporting_a_cnn_to_c_is_refused_and_the_unsupported_operators_are_named(tmp_path: Path, wording) -> None:
    env = {
        "id": "Pendulum-v1",
        "wrappers": [{"id": "rlrun.toys:PendulumImages", "kwargs": {"size": 20}}],
    }
    with Training(env, PPO(model=DENSE, compile=False), seed=1) as training:
        training.save(tmp_path / "images")
    done = rlrun("export", tmp_path / "images", "-o", tmp_path / "policy.c", "--to", "c")
    assert done.exit_code == 2
    assert done.stderr == wording("Conv")


def test_exporting_a_policy_that_searches_is_refused(tmp_path: Path, wording) -> None:
    with Training({"world": "rlrun.toys:TicTacToe"}, AlphaZero(), seed=1) as training:
        training.save(tmp_path / "board")
    done = rlrun("export", tmp_path / "board", "-o", tmp_path / "policy.onnx")
    assert done.exit_code == 2
    assert done.stderr == wording()
