"""PPG: the auxiliary loss, what an auxiliary phase learns from and leaves alone, exact resumes."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import rlrun
from rlrun.algorithms.ppg.policy import PhasicOutputs
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.messages.errors import SpecError
from rlrun.engine.policy.action_spaces.discrete import Categorical
from rlrun.engine.training.training import Training
from tests.results import numbers

SMALL = {
    "num_envs_per_worker": 4,
    "train_batch_size": 64,
    "minibatch_size": 32,
    "policy_iterations": 3,
    "auxiliary_epochs": 2,
    "model": {"hiddens": [8]},
    "min_env_steps_per_iteration": 0,
    "compile": False,
}
GRU = {"model": {"hiddens": [8], "core": "gru", "core_width": 8}}


def ppg_training(**settings: Any) -> Training:
    return Training("CartPole-v1", rlrun.PPG(**{**SMALL, **settings}), seed=1)


def kept(training: Training) -> list[dict[str, Any]]:
    """The batches that wait for an auxiliary phase."""
    found: list[dict[str, Any]] = training.running.flow.state()["operators"]["AuxiliaryPhase"]["operator"]["kept"]
    return found


def test_the_auxiliary_loss_sums_both_value_losses_and_the_kl_from_the_old_policy() -> None:
    logits, old = torch.tensor([[0.0, 1.0], [2.0, 0.0]]), torch.tensor([[2.0, 0.0], [0.0, 0.0]])
    pair = torch.tensor([[1.0], [-7.0]])
    outputs = PhasicOutputs(Categorical(logits[:, None]), pair, auxiliary_values=pair + 2)
    batch = SampleBatch(
        target_outputs=old[:, None], value_targets=torch.full((2, 1), 4.0), valid=torch.tensor([[True], [False]])
    )
    loss = rlrun.PPG(vf_loss_coeff=0.25, clone_coeff=2.0).auxiliary_loss(outputs, batch, {})
    before, after = np.exp([2.0, 0.0]) / (np.exp(2) + 1), np.exp([0.0, 1.0]) / (1 + np.e)
    kl = before @ np.log(before / after)  # 0.83 from the old policy to the new one; 1.01 the other way round
    assert {name: value.item() for name, value in loss.statistics.items()} == pytest.approx(
        {"value_loss": 9.0, "auxiliary_value_loss": 1.0, "kl": kl}
    )
    assert loss.total.item() == pytest.approx(0.25 * (9.0 + 1.0) + 2.0 * kl)


@pytest.mark.parametrize("settings", [{}, GRU], ids=["dense", "recurrent"])
def test_the_auxiliary_head_is_trained_only_in_its_phase_on_all_batches_since_the_last_phase(settings: Any) -> None:
    training = ppg_training(**settings)
    learner = training.running.trainee.learner

    def head() -> np.ndarray[Any, Any]:
        return learner.policy.parameters.named(learner.flat())["auxiliary_value_head.weight"].copy()

    heads, batches, learned = [head()], [], []
    for _ in range(6):
        training.step()
        heads.append(head())
        batches.append(len(kept(training)))
        assert learner.last_batch is not None
        learned.append(int(learner.last_batch["valid"].sum()))
    training.close()
    assert batches == [1, 2, 0, 1, 2, 0]
    moved = [bool((after != before).any()) for before, after in pairwise(heads)]
    assert moved == [False, False, True] * 2
    assert learned[2] > learned[0] + learned[1]


def test_the_auxiliary_phase_preserves_the_latest_policy_even_on_older_batches() -> None:
    training = ppg_training(policy_iterations=2, lr=[[0, 1e-2], [100, 0.0]])  # the second batch has rate 0
    learner = training.running.trainee.learner
    flats = [learner.flat()]
    for _ in range(2):
        training.step()
        flats.append(learner.flat())
    rows = SampleBatch(learner.last_batch).map(torch.from_numpy)
    training.close()
    assert not (flats[0] == flats[1]).all()
    np.testing.assert_array_equal(flats[1], flats[2])
    views = learner.policy.parameters.views(torch.from_numpy(flats[1]))
    torch.testing.assert_close(rows["target_outputs"], learner.policy.outputs(views, rows).distribution.outputs)


@pytest.mark.parametrize("settings", [{}, {**GRU, "normalize_observations": True}], ids=["dense", "recurrent"])
def test_resuming_between_two_auxiliary_phases_is_exact(settings: Any, tmp_path: Path) -> None:
    training = ppg_training(**settings)
    for _ in range(2):
        training.step()
    training.save(tmp_path / "saved")
    expected = [numbers(training.step()) for _ in range(2)]
    flat = training.running.trainee.learner.flat()
    training.close()
    resumed = Training.restore(tmp_path / "saved")
    assert len(kept(resumed)) == 2
    assert [numbers(resumed.step()) for _ in range(2)] == expected
    assert (resumed.running.trainee.learner.flat() == flat).all()
    resumed.close()


def test_shared_networks_and_reward_streams_are_refused(wording) -> None:
    with wording.raised(SpecError, "shared_value"):
        rlrun.PPG(model={"shared_value": True})
    with wording.raised(SpecError):
        rlrun.PPG(curiosity={"kind": "rnd"})
