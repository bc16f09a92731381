"""The computations of an ensemble, by hand."""

from __future__ import annotations

import numpy as np
import torch

from rlrun.algorithms.model_based.ensemble import MEMBERS, Ensemble, EnsembleOutputs
from rlrun.engine.data.sample_batch import SampleBatch
from tests.rounding import rounding_error


def ensemble_of(num_members: int = 3, **settings: object) -> EnsembleOutputs:
    given = {"predicts_ends": False, "num_elites": 1, "hiddens": (4,), "seed": 7, **settings}
    ensemble = Ensemble(2, 1, num_members=num_members, **given)  # type: ignore[arg-type]
    return EnsembleOutputs(ensemble, {name: view.detach() for name, view in ensemble.named_parameters()})


def silu(x: np.ndarray) -> np.ndarray:
    return x / (1 + np.exp(-x))


def test_each_ensemble_member_predicts_with_its_own_layers_from_normalized_inputs() -> None:
    outputs = ensemble_of()
    views = {
        **outputs.views,
        "input_mean": torch.tensor([1.0, -2.0]),
        "input_std": torch.tensor([0.5, 4.0]),
    }
    inputs = np.array([[0.0, 2.0], [3.0, -2.0]], np.float32)
    found = EnsembleOutputs(outputs.ensemble, views).predict(torch.from_numpy(inputs)[:, None].expand(-1, 3, -1))
    for member in range(3):
        hidden = (inputs - [1.0, -2.0]) / [0.5, 4.0]
        first, last = (views[f"{MEMBERS}weights.{layer}"][member].numpy() for layer in (0, 1))
        by_hand = silu(hidden @ first) @ last
        np.testing.assert_allclose(found.means[:, member], by_hand[:, :1], atol=rounding_error(2 + 4))


def test_log_variances_are_softly_bounded_and_unchanged_far_from_the_bounds() -> None:
    outputs = ensemble_of(num_members=1, hiddens=())
    weights = torch.tensor([[[0.0, 1.0], [0.0, 0.0]]])
    views = {**outputs.views, f"{MEMBERS}weights.0": weights}
    inputs = torch.tensor([-100.0, -4.0, 100.0]).view(3, 1, 1).expand(-1, -1, 2)
    found = EnsembleOutputs(outputs.ensemble, views).predict(inputs).log_variances.flatten()
    assert found[0] >= -10 - 1e-4
    np.testing.assert_allclose(found[1], -4, atol=0.02)
    assert found[2] <= 0.5 + 1e-4


def test_the_loss_is_the_gaussian_nll_of_normalized_targets_plus_the_bound_penalty() -> None:
    outputs = ensemble_of(num_members=2)
    views = {**outputs.views, "target_mean": torch.tensor([3.0]), "target_std": torch.tensor([2.0])}
    outputs = EnsembleOutputs(outputs.ensemble, views)
    rng = np.random.default_rng(1)
    batch = SampleBatch(
        inputs=torch.from_numpy(rng.standard_normal((5, 2, 2), np.float32)),
        targets=torch.from_numpy(rng.standard_normal((5, 2, 1), np.float32)),
    )
    predicted = outputs.predict(batch["inputs"])
    errors = predicted.means - (batch["targets"] - 3) / 2
    variances = predicted.log_variances.exp()
    expected = (errors.square() / variances + variances.log()).mean((0, 2)).sum() + 0.01 * 2 * 10.5
    found = outputs.losses(batch)
    torch.testing.assert_close(found["loss"], expected)
    torch.testing.assert_close(found["mse"], errors.square().mean())


def test_terminations_are_learned_by_cross_entropy() -> None:
    outputs, without = ensemble_of(predicts_ends=True), ensemble_of()
    rng = np.random.default_rng(2)
    ends = np.array([[True, False, True], [False, False, True]])
    batch = SampleBatch(
        inputs=torch.from_numpy(rng.standard_normal((2, 3, 2), np.float32)),
        targets=torch.zeros(2, 3, 1),
        terminateds=torch.from_numpy(ends),
    )
    predicted = outputs.predict(batch["inputs"])
    assert predicted.end_logits is not None
    probabilities = predicted.end_logits.sigmoid()
    entropies = -torch.where(batch["terminateds"], probabilities, 1 - probabilities).log().mean(0).sum()
    gaussian = predicted.means.square() * (-predicted.log_variances).exp() + predicted.log_variances
    expected = gaussian.mean((0, 2)).sum() + 0.01 * 3 * 10.5 + entropies
    torch.testing.assert_close(outputs.losses(batch)["loss"], expected)
    assert without.predict(batch["inputs"]).end_logits is None


def test_drawn_samples_are_in_target_units_and_each_column_uses_its_member() -> None:
    outputs = ensemble_of()
    views = {**outputs.views, "target_mean": torch.tensor([3.0]), "target_std": torch.tensor([2.0])}
    outputs = EnsembleOutputs(outputs.ensemble, views)
    inputs = torch.ones(4, 3, 2)
    every = outputs.predict(inputs)
    drawn = outputs.draw(
        SampleBatch(
            inputs=inputs[:, :2],
            noise=torch.full((4, 2, 1), 0.5),
            members=torch.tensor([2, 0]).expand(4, 2),
        )
    )
    for column, member in enumerate((2, 0)):
        means, stds = every.means[:, member], (0.5 * every.log_variances[:, member]).exp()
        torch.testing.assert_close(drawn["targets"][:, column], 3 + 2 * (means + 0.5 * stds))
