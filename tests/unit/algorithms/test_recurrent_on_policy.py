"""On-policy algorithms with a recurrent network: a task that needs memory, and bit-exact resumes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rlrun
from rlrun import Training
from rlrun.engine.algorithm import Algorithm
from rlrun.engine.messages.errors import SpecError

CUE = {"id": "rlrun.toys:CueRecall", "kwargs": {"delay": 3}}
MODEL = {"hiddens": [16], "core": "gru", "core_width": 16, "shared_value": True}
ASYNC = {"rollout_fragment_length": 12, "train_batch_size": 192, "lr": 5e-3, "min_env_steps_per_iteration": 1000}
CASES: dict[str, tuple[type[Algorithm[Any]], dict[str, Any]]] = {
    "a2c": (rlrun.A2C, {"train_batch_size": 160, "lr": 1e-2, "gae_lambda": 0.95}),
    "a3c": (rlrun.A3C, {"train_batch_size": 160, "lr": 1e-2, "entropy_coeff": 0.0, "seq_len": 8}),
    "pg": (rlrun.PG, {"train_batch_size": 200, "lr": 1e-2, "rollout_fragment_length": 6, "seq_len": 8}),
    "impala": (rlrun.Impala, {**ASYNC, "entropy_coeff": 0.0}),
    "appo": (rlrun.APPO, {**ASYNC, "entropy_coeff": 0.0, "num_epochs": 2, "kl_coeff": 0.01}),
    "ddppo": (rlrun.DDPPO, {"train_batch_size": 512, "minibatch_size": 128, "seq_len": 8, "lr": 1e-2}),
}


def training_with_memory(name: str) -> Training:
    cls, settings = CASES[name]
    shared = {"num_envs_per_worker": 16, "compile": False, "model": MODEL, "min_env_steps_per_iteration": 1000}
    return Training(CUE, cls(**{**shared, **settings}), seed=100)


@pytest.mark.parametrize("name", CASES)
def test_policies_with_memory_recall_a_cue(name: str) -> None:
    with training_with_memory(name) as training:
        while training.step()["env_steps"] < 20_000 and training.evaluate(50).mean < 0.98:
            pass
        assert training.evaluate(200).mean >= 0.95


@pytest.mark.parametrize("name", [name for name in CASES if name not in ("impala", "appo")])  # these two are not exact
def test_a_resumed_run_matches_an_uninterrupted_run_bit_for_bit(name: str, tmp_path: Path) -> None:
    with training_with_memory(name) as one:
        one.step()
        checkpoint = one.save(tmp_path / "checkpoint")
        expected = one.step()["episode_return_mean"]
        weights = one.running.trainee.learner.flat()
    with Training.restore(checkpoint) as other:
        assert other.step()["episode_return_mean"] == expected
        np.testing.assert_array_equal(other.running.trainee.learner.flat(), weights)


def test_worker_minibatches_that_split_a_sequence_are_refused(wording) -> None:
    with wording.raised(SpecError, "seq_len", "32"):
        rlrun.Training(CUE, rlrun.DDPPO(model=MODEL, num_workers=2, minibatch_size=64, seq_len=64))


def test_impala_refuses_seq_len_since_its_sequences_are_whole_fragments(wording) -> None:
    with wording.raised(SpecError, "rollout_fragment_length"):
        rlrun.Training(CUE, rlrun.Impala(model=MODEL, seq_len=8))
