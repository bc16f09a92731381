"""Distillation: the student acts on what it sees, and learns the teacher's action distributions there."""

from __future__ import annotations

import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

import rlrun
from rlrun.algorithms.dagger.settings import EXPERT_OUTPUTS
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.messages.errors import SpecError, UsageError
from rlrun.engine.policy.action_spaces.discrete import Categorical
from rlrun.engine.training.training import Training
from tests.results import numbers
from tests.unit.algorithms.dagger.test_dagger import BALANCE, collected

ENV = "rlrun.toys:DictCartPole"
SMALL = {
    "num_envs_per_worker": 2,
    "train_batch_size": 64,
    "minibatch_size": 32,
    "min_env_steps_per_iteration": 0,
    "compile": False,
}
STUDENT = {"hiddens": [8], "core": "gru", "core_width": 8, "actor_sees": ["position"]}


def teacher(folder: Path, algorithm: Any = rlrun.PPO, env: str = ENV, **config: Any) -> str:
    with Training(env, algorithm(model={"hiddens": [8]}, compile=False, **config), seed=3) as training:
        return str(training.save(folder / "teacher"))


def test_the_teachers_action_distributions_are_recorded_for_the_states_the_student_visits(tmp_path: Path) -> None:
    expert = teacher(tmp_path, normalize_observations=True)
    with Training(ENV, rlrun.Distill(**SMALL, expert=expert, model=STUDENT), seed=1) as training:
        fragment = collected(training)
    with Training.restore(expert) as training:
        behavior = training.acting.policy().behavior()
        for t in np.flatnonzero(fragment["valid"].all(1)):
            seen = {key: part[t] for key, part in fragment["obs"].items()}
            np.testing.assert_allclose(fragment[EXPERT_OUTPUTS][t], behavior.outputs(seen), atol=1e-5)


def test_the_loss_is_the_divergence_of_the_student_from_the_teacher_over_valid_steps() -> None:
    outputs: Any = SimpleNamespace(distribution=Categorical(torch.tensor([[[0.0, 0.0]], [[5.0, 0.0]]])))
    batch = SampleBatch(
        {EXPERT_OUTPUTS: torch.tensor([[[0.0, math.log(3)]], [[0.0, 0.0]]])}, valid=torch.tensor([[True], [False]])
    )
    expected = 1 / 4 * math.log(1 / 2) + 3 / 4 * math.log(3 / 2)
    assert rlrun.Distill().loss(outputs, batch, {}).total.item() == pytest.approx(expected)


def test_a_student_that_observes_less_approaches_its_teacher_and_resumes_exactly(tmp_path: Path) -> None:
    expert = teacher(tmp_path)
    algorithm = rlrun.Distill(**{**SMALL, "lr": 1e-2, "num_epochs": 8}, expert=expert, model=STUDENT)
    with Training(ENV, algorithm, seed=1) as training:
        first = training.step()["learner/kl"]
        for _ in range(4):
            result = training.step()
        assert result["learner/kl"] < first
        declared = training.description.metrics()
        assert [key for key in result if not any(metric.matches(key) for metric in declared)] == []
        training.save(tmp_path / "student")
        expected = numbers(training.step())
    with Training.restore(tmp_path / "student", trust=True) as restored:
        assert restored.acting.policy().act({"position": [0.0, 0.1]}) in (0, 1)
        assert numbers(restored.step()) == expected


@pytest.mark.parametrize(
    ("algorithm", "words"),
    [
        (rlrun.DQN, "samples from an action distribution, as ppo does, not DiscreteActions with EpsilonGreedy"),
        (
            BALANCE,
            (
                "distill needs a teacher with action distributions: name a checkpoint. To learn from a function, use "
                "dagger"
            ),
        ),
        (None, "config.expert is missing"),
    ],
)
def test_teachers_without_action_distributions_are_refused(algorithm: Any, words: str, tmp_path: Path) -> None:
    expert = teacher(tmp_path, algorithm) if algorithm is rlrun.DQN else algorithm
    with (
        Training(ENV, rlrun.Distill(**SMALL, expert=expert), seed=1) as training,
        pytest.raises(UsageError, match=words),
    ):
        training.step()


def test_minibatches_of_a_recurrent_student_are_whole_sequences(wording) -> None:
    with wording.raised(SpecError, "seq_len"):
        rlrun.Distill(**{**SMALL, "minibatch_size": 24}, model=STUDENT)
