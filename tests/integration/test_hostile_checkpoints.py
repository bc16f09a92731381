"""Checkpoints with correct digests but missing or wrong parts: each is refused, without a traceback."""

from __future__ import annotations

import copy
import os
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from rlrun.cli.main import cli
from rlrun.engine.checkpoint.format import Content, read_checkpoint, write_checkpoint
from rlrun.engine.messages.errors import CheckpointError
from rlrun.engine.training.training import Training
from rlrun.experiments.spec.load import parse_experiments

SMALL = "num_envs_per_worker: 1, minibatch_size: 4, model: {hiddens: [4]}"
ON_POLICY = "train_batch_size: 16, min_env_steps_per_iteration: 0"
REPLAY = f"{SMALL}, learning_starts: 8, min_env_steps_per_iteration: 16, replay: {{capacity: 64}}"
SPECS = {
    "ppo": f"env: CartPole-v1, config: {{{SMALL}, {ON_POLICY}, num_epochs: 1, normalize_observations: true}}",
    "dqn": f"env: CartPole-v1, config: {{{REPLAY}}}",
    "sac": f"env: {{id: Pendulum-v1, max_episode_steps: 12}}, config: {{{REPLAY}}}",
}
GONE = object()
KINDS: list[Any] = [GONE, None, "text", -1, [], {}, 3.5, 2**70, True]
"""Values that replace a value."""
COMMANDS = ("resume", "evaluate", "resume", "show", "resume", "from")
"""Commands that take turns reading damaged checkpoints; all of them read a checkpoint in the same way."""
STRIDE = int(os.environ.get("DAMAGE_STRIDE", "11"))
"""Only every n-th damage is tried, so that the test takes seconds; `make chaos` tries all of them."""


def rlrun(*words: object) -> tuple[int, str]:
    done = CliRunner().invoke(cli, list(map(str, words)))
    return done.exit_code, done.output


@pytest.fixture(scope="module", params=list(SPECS))
def trained(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the spec `<name>.yaml` and its run in `runs`, after one iteration."""
    folder, name = tmp_path_factory.mktemp("trained"), request.param
    file = folder / f"{name}.yaml"
    file.write_text(f"{name}: {{algorithm: {name}, stop: {{iteration: 1}}, {SPECS[name]}}}\n")
    code, output = rlrun("train", "-f", file, "--runs-dir", folder / "runs")
    assert code == 0, output
    return file


def checkpoint_of(file: Path) -> Path:
    (checkpoint,) = (file.parent / "runs" / file.stem).glob("*/checkpoints/*")
    return checkpoint


def read_by(command: str, file: Path, content: Content, folder: Path) -> tuple[int, str]:
    """Replaces the run's checkpoint by another content in a copy of the run, and makes a command read it."""
    shutil.rmtree(folder, ignore_errors=True)
    run = shutil.copytree(file.parent / "runs" / file.stem, folder / file.stem)
    checkpoint = write_checkpoint(run / checkpoint_of(file).relative_to(file.parent / "runs" / file.stem), content)
    words: dict[str, list[object]] = {
        "evaluate": ["evaluate", file.stem, "--episodes", 1],
        "resume": ["resume", file.stem, "--extend", "iteration=2"],
        "show": ["show", file.stem],
        "from": ["train", "-f", file, "--from", checkpoint],
    }
    return rlrun(*words[command], "--runs-dir", folder)


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yields the paths of all values in nested dicts and lists; for a list, only the path of the first value."""
    if path:
        yield path
    inner = value.items() if isinstance(value, dict) else [(0, value[0])] if isinstance(value, list) and value else ()
    for key, item in inner:
        yield from places(item, (*path, key))


def damaged(content: Content, part: str, path: tuple[Any, ...], value: Any) -> Content:
    """Returns a copy with a different value in one place."""
    made = copy.deepcopy(content)
    *folders, last = path
    holder = getattr(made, part)
    for key in folders:
        holder = holder[key]
    if value is GONE:
        del holder[last]
    else:
        holder[last] = value
    return made


def damages(content: Content) -> Iterator[tuple[str, tuple[Any, ...], Any]]:
    """Yields part, path and new value of damages: values of another kind everywhere, and other kinds of tensors."""
    number = 0
    for part in ("manifest", "spec", "state"):
        for path in places(getattr(content, part)):
            if path[0] in ("config", "result") and len(path) > 1:  # settings have their own tests
                continue
            number += 1
            yield part, path, KINDS[number % len(KINDS)]
    for stem, named in content.tensors.items():
        yield "tensors", (stem,), GONE
        for name, tensor in named.items():
            number += 1
            other_shape = np.zeros((*tensor.shape, 2), np.float32)
            sorts = (np.full_like(tensor, np.nan), tensor.astype(np.int64), other_shape, GONE)
            yield "tensors", (stem, name), sorts[number % len(sorts)]


def test_a_damaged_checkpoint_part_is_refused_or_harmless_but_never_causes_a_traceback(
    trained: Path, tmp_path: Path
) -> None:
    content = read_checkpoint(checkpoint_of(trained))
    codes = []  # exit codes of `resume`, which reads all parts except the spec
    for number, (part, path, value) in enumerate(damages(content)):
        if number % STRIDE:
            continue
        command = COMMANDS[number // STRIDE % len(COMMANDS)]
        code, output = read_by(command, trained, damaged(content, part, path, value), tmp_path / "runs")
        if command == "resume" and part != "spec":
            codes.append(code)
        assert code in (0, 5), f"{command} with {part} {path} = {value} ended with {code}:\n{output}"
        assert "Traceback" not in output
    assert codes.count(5) >= 2  # the other damages are harmless


HOSTILE: list[tuple[str, tuple[Any, ...], Any, str]] = [
    ("spec", ("seed",), -1, "invalid seed -1"),
    ("spec", ("algorithm",), "no_such", "unknown algorithm 'no_such'"),
    ("spec", ("config", "model", "module"), "rlrun.engine.nn.encoders:Encoder", "config.model.module"),
    ("spec", ("config", "model", "hiddens"), [2**60], "is too large: 1152921504606846976"),
    ("spec", ("evaluation",), 5, "evaluation must be a mapping, not 5"),
    ("manifest", ("update_executor",), "magic", "update executor 'magic'"),
    ("state", ("trainees",), GONE, "the checkpoint has no state of its policies"),
    ("state", ("training", "version"), 99, "has version 99"),
    (
        "state",
        ("trainees", "default", "learner", "state", "generator", "buffer_pos"),
        -9,
        "is not a valid position in a generator's buffer",
    ),
    ("state", ("workers", "state", "env_steps"), -1, "-1 is not a count"),
]


@pytest.mark.parametrize(("part", "path", "value", "said"), HOSTILE, ids=range(len(HOSTILE)))
@pytest.mark.parametrize("trained", ["ppo"], indirect=True)
def test_the_error_message_says_what_is_wrong_with_a_damaged_checkpoint_part(
    trained: Path, tmp_path: Path, part: str, path: tuple[Any, ...], value: Any, said: str
) -> None:
    content = damaged(read_checkpoint(checkpoint_of(trained)), part, path, value)
    received = write_checkpoint(tmp_path / "received", content)
    code, output = rlrun("evaluate", received, "--episodes", 1, "--runs-dir", tmp_path / "runs")
    assert code == 5
    assert said in " ".join(output.split())


@pytest.mark.parametrize(
    ("stem", "said"),
    [
        ("policies/default", "unknown parameter more"),
        ("optimizers/default", "it has more, which belongs to no objective"),
        ("targets/default", "it has a target network of default, but the algorithm has none"),
        ("policies/other", "tensors of policies/other, which belong to none of its policies"),
    ],
)
@pytest.mark.parametrize("trained", ["ppo"], indirect=True)
def test_tensors_that_no_part_of_the_checkpoint_expects_are_refused(
    trained: Path, tmp_path: Path, stem: str, said: str
) -> None:
    content = read_checkpoint(checkpoint_of(trained))
    content.tensors.setdefault(stem, {})["more"] = np.zeros(3, np.float32)
    code, output = read_by("resume", trained, content, tmp_path / "runs")
    assert code == 5
    assert said in " ".join(output.split())


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("iteration", "two", "'two' is not a count"),
        ("env_steps", -1, "-1 is not a count"),
        ("iteration", GONE, "'iteration'"),
    ],
    ids=["text", "negative", "gone"],
)
@pytest.mark.parametrize("trained", ["ppo"], indirect=True)
def test_a_result_with_an_invalid_or_missing_count_is_refused(
    trained: Path, tmp_path: Path, name: str, value: Any, said: str
) -> None:
    content = damaged(read_checkpoint(checkpoint_of(trained)), "manifest", ("result", name), value)
    code, output = read_by("resume", trained, content, tmp_path / "runs")
    assert code == 5
    assert said in " ".join(output.split())


@pytest.mark.parametrize("trained", ["ppo"], indirect=True)
def test_a_checkpoint_state_that_is_not_a_mapping_is_refused(trained: Path, tmp_path: Path) -> None:
    content = read_checkpoint(checkpoint_of(trained))
    code, output = read_by("evaluate", trained, replace(content, state=[]), tmp_path / "runs")  # type: ignore[arg-type]
    assert code == 5
    assert "cannot parse state.json: not a mapping" in " ".join(output.split())


def longer(array: Any) -> Any:
    return np.concatenate([array, array[:1]])


FLOW = ("trainees", "default", "flow", "state", "operators")
MISFITS: dict[str, tuple[dict[str, Any], tuple[Any, ...], str]] = {
    "cmaes": (
        {
            "env": "CartPole-v1",
            "config": {
                "min_env_steps_per_iteration": 0,
                "population_size": 4,
                "num_envs_per_worker": 4,
                "model": {"hiddens": []},
            },
        },
        (*FLOW, "AdaptDistribution", "operator", "distribution", "mean"),
        "the distribution.mean is float64 (11,), not float64 (10,)",
    ),
    "pg": (
        {
            "env": "CartPole-v1",
            "config": {
                "num_envs_per_worker": 2,
                "train_batch_size": 16,
                "min_env_steps_per_iteration": 0,
                "model": {"hiddens": [4]},
            },
        },
        ("workers", "state", "workers", 0, "postprocessing", "default", "0", "held", "rewards"),
        "the env: rewards is float32 [1, 2] in the checkpoint, but float32 [0, 2]",
    ),
    "vdn": (
        {
            "env": {"world": "rlrun.toys:TwoStepGame"},
            "config": {"num_envs_per_worker": 2, "minibatch_size": 4, "learning_starts": 8, "model": {"hiddens": [4]}},
        },
        (*FLOW, "0/JoinTeams", "operator", "cut_off", 0, 1),
        "team flags have shape (3, 2), not (2, 2)",
    ),
}


@pytest.mark.parametrize("name", list(MISFITS))
def test_restored_arrays_of_the_wrong_shape_are_refused_when_combined_with_other_arrays(name: str) -> None:
    spec, path, said = MISFITS[name]
    (experiment,) = parse_experiments({name: {"algorithm": name, "stop": {"iteration": 1}, **spec}})
    (trial,) = experiment.trials()
    with Training(trial.env, trial.learns) as training:
        training.step()
        content = training.content(
            {**training.description.policies.to_data(), "env": training.description.env.to_data(), "seed": 0}
        )
    value: Any = content.state
    for key in path:
        value = value[key]
    with Training(trial.env, trial.learns) as whole:  # the undamaged checkpoint is accepted
        whole.load(content)
        whole.step()

    def go_on() -> None:
        with Training(trial.env, trial.learns) as restored:
            restored.load(damaged(content, "state", path, longer(value)))
            restored.step()

    with pytest.raises(CheckpointError) as caught:
        go_on()
    assert said in str(caught.value)


@pytest.mark.parametrize("trained", ["ppo"], indirect=True)
@pytest.mark.parametrize("command", ["evaluate", "resume", "from"])
def test_a_policy_with_non_finite_parameters_is_refused(trained: Path, tmp_path: Path, command: str) -> None:
    content = read_checkpoint(checkpoint_of(trained))
    for tensor in content.tensors["policies/default"].values():
        tensor[...] = np.nan
    code, output = read_by(command, trained, content, tmp_path / "runs")
    assert code == 5
    assert "contains NaN or infinite numbers" in " ".join(output.split())
