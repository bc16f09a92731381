"""Algorithms with sets of entities, several images and custom encoders: they act, learn, and resume exactly."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import rlrun
from rlrun import Training
from rlrun.cli.main import cli
from rlrun.engine.algorithm import Algorithm
from rlrun.engine.messages.errors import CheckpointRefused

ENTITIES = "rlrun.toys:HighestEntity"
CAMERAS = "rlrun.toys:TwoCameras"
AS_ENTITIES = {"observations": {"entities": {"encode_as": "entities", "mask": "entity_mask"}}}
OWN_FRONT = {"encoders": {"front": "rich_nets:Halves"}}

COMMON: dict[str, Any] = {"compile": False, "num_envs_per_worker": 8}
ON_POLICY = {**COMMON, "train_batch_size": 64, "min_env_steps_per_iteration": 64}
PPO = {**ON_POLICY, "minibatch_size": 32, "num_epochs": 1}
OFF_POLICY = {
    **COMMON,
    "min_env_steps_per_iteration": 64,
    "learning_starts": 64,
    "training_intensity": 0.1,
    "rollout_fragment_length": 8,
    "minibatch_size": 16,
}
R2D2 = {**OFF_POLICY, "minibatch_size": 4, "replay": {"capacity": 400, "length": 4, "burn_in": 2, "stride": 2}}
GRU = {"core": "gru", "core_width": 8}
CASES: dict[str, tuple[type[Algorithm[Any]], dict[str, Any], dict[str, Any]]] = {
    "ppo": (rlrun.PPO, PPO, {}),
    "ppo gru": (rlrun.PPO, {**PPO, "seq_len": 4}, GRU),
    "impala": (rlrun.Impala, {**COMMON, "train_batch_size": 64, "min_env_steps_per_iteration": 64}, {}),
    "dqn": (rlrun.DQN, {**OFF_POLICY, "dueling": True}, {}),
    "sac": (rlrun.SAC, OFF_POLICY, {}),
    "r2d2": (rlrun.R2D2, R2D2, GRU),
}
HALVES = """
import torch
from torch import nn

class Halves(nn.Module):
    def __init__(self, space):
        super().__init__()
        self.layer = nn.Linear(2, 4)

    def forward(self, images):
        middle = images.shape[2] // 2
        halves = images[:, :, :middle].float(), images[:, :, middle:].float()
        return self.layer(torch.stack([half.mean((1, 2, 3)) / 255 for half in halves], -1))
"""


@pytest.fixture
def rich_nets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "rich_nets.py").write_text(HALVES)
    monkeypatch.syspath_prepend(tmp_path)


def training_on(name: str, env: str, model: dict[str, Any]) -> Training:
    cls, settings, own = CASES[name]
    return Training(env, cls(**{**settings, "model": {"hiddens": [16], **own, **model}}), seed=3)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize(("env", "model"), [(ENTITIES, AS_ENTITIES), (CAMERAS, OWN_FRONT)], ids=["entities", "own"])
@pytest.mark.usefixtures("rich_nets")
def test_observation_encoders_are_trained_by_every_kind_of_algorithm(
    name: str, env: str, model: dict[str, Any]
) -> None:
    assert_encoders_learn(training_on(name, env, model))


def test_embeddings_of_integers_are_trained() -> None:
    as_vectors = {"observations": {"": {"encode_as": "embedding"}}}
    assert_encoders_learn(training_on("ppo", "rlrun.toys:MultiDiscreteMatch", as_vectors))


def assert_encoders_learn(training: Training) -> None:
    with training:
        while training.step()["env_steps"] < 130:
            pass
        learner = training.running.trainee.learner
        before = learner.flat()
        training.step()
        after = learner.flat()
        assert training.evaluate(2).mean >= 0
    assert np.isfinite(after).all()
    encoders = [slot for slot in learner.policy.parameters.slots if "encoder" in slot.name]
    assert encoders
    for slot in encoders:
        part = slice(slot.offset, slot.offset + slot.size)
        assert (before[part] != after[part]).any(), slot.name


@pytest.mark.parametrize("name", ["ppo gru", "dqn"])
@pytest.mark.usefixtures("rich_nets")
def test_resuming_a_run_with_custom_encoders_is_exact_bit_for_bit_and_requires_trust(
    name: str, tmp_path: Path, wording
) -> None:
    with training_on(name, CAMERAS, OWN_FRONT) as one:
        one.step()
        one.step()
        checkpoint = one.save(tmp_path / "checkpoint")
        expected = one.step()["episode_return_mean"]
        weights = one.running.trainee.learner.flat()
    with wording.raised(CheckpointRefused, "config.model.encoders.front", "rich_nets:Halves"):
        Training.restore(checkpoint)
    with Training.restore(checkpoint, trust=True) as other:
        assert other.step()["episode_return_mean"] == expected
        np.testing.assert_array_equal(other.running.trainee.learner.flat(), weights)


SPEC = """\
one:
  algorithm: ppo
  env: rlrun.toys:TwoCameras
  stop: {{env_steps: 100}}
  config: {{model: {model}}}
"""


@pytest.mark.parametrize("command", ["plan", "train"])
@pytest.mark.parametrize(
    ("model", "message"),
    [
        ("{encoders: {fornt: rich_nets:Halves}}", "has no part 'fornt'.*did you mean 'front'"),
        ("{encoders: {front: rich_nets:Halfs}}", "has no 'Halfs'; did you mean 'Halves'"),
        ("{observations: {turned: {encode_as: entities}}}", "'turned' of shape .* cannot be encoded as entities"),
    ],
)
@pytest.mark.usefixtures("rich_nets")
def test_commands_exit_with_code_2_for_encoder_mistakes_before_anything_starts(
    command: str, model: str, message: str, tmp_path: Path
) -> None:
    spec = tmp_path / "spec.yaml"
    spec.write_text(SPEC.format(model=model))
    more = ["--runs-dir", str(tmp_path / "runs")] if command == "train" else []
    done = CliRunner().invoke(cli, [command, "-f", str(spec), *more])
    assert done.exit_code == 2
    assert re.search(message, " ".join(done.stderr.split()))
    assert not list(tmp_path.glob("runs/*"))


@pytest.mark.usefixtures("rich_nets")
def test_the_plan_shows_how_each_observation_part_is_encoded(tmp_path: Path, wording) -> None:
    spec = tmp_path / "spec.yaml"
    spec.write_text(SPEC.format(model="{encoders: {front: rich_nets:Halves}}"))
    assert CliRunner().invoke(cli, ["plan", "-f", str(spec)]).stdout.splitlines()[-5:-1] == wording(
        "shared_value", "rich_nets:Halves", "64"
    )


def test_entity_encoders_of_policy_and_value_are_trained_in_a_world() -> None:
    algorithm = rlrun.IPPO(**{**PPO, "num_envs_per_worker": 2, "model": {"hiddens": [16], **AS_ENTITIES}})
    training = Training({"world": "rlrun.toys:Foraging"}, algorithm, seed=3)
    names = {slot.name for slot in training.running.trainee.learner.policy.parameters.slots}
    for network in ("policy", "value"):
        assert f"networks.{network}.{network}_encoder.parts.0.scores.weight" in names
    assert_encoders_learn(training)
