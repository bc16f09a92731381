"""SAC's presets: quantile critics by hand, and what each preset changes in SAC."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Discrete
from numpy.typing import NDArray
from torch import Tensor

from rlrun import REDQ, SAC, TQC, XQC, CrossQ, DroQ, FlashSAC, SimBa, Training
from rlrun.algorithms.actor_q.extended_sac import ExtendedSAC
from rlrun.algorithms.actor_q.extended_soft_policy import truncated_mixture
from rlrun.algorithms.actor_q.soft_networks import SquashedNetworks
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.envs.spaces import Spaces
from rlrun.engine.learner.optimizers import Adam, AdamW
from rlrun.engine.messages.errors import SpecError, UsageError
from rlrun.engine.nn.batch_norm import batch_statistics
from rlrun.engine.policy.policy import Policy
from rlrun.engine.policy.weights import Weights

SPACES = Spaces(Box(-1, 1, (3,)), Box(-1, 1, (2,)))
SMALL: dict[str, Any] = {
    "model": {"hiddens": [4]},
    "learning_starts": 10,
    "minibatch_size": 8,
    "min_env_steps_per_iteration": 12,
    "compile": False,
}
ROWS = 5


def outputs_of(algorithm: SAC, seed: int = 0) -> SquashedNetworks:
    """Networks and target networks with random parameters."""
    policy = algorithm.policy(SPACES, 0)
    generator = torch.Generator().manual_seed(seed)
    online, target = (policy.parameters.views(torch.randn(policy.parameters.size, generator=generator)) for _ in "ab")
    found: SquashedNetworks = policy.outputs(online, SampleBatch(), target)
    return found


def minibatch(seed: int = 1) -> SampleBatch:
    generator = torch.Generator().manual_seed(seed)
    shapes = {"obs": 3, "next_obs": 3, "actions": 2, "noise": 2, "next_noise": 2}
    columns = {name: torch.randn(ROWS, 1, width, generator=generator) for name, width in shapes.items()}
    return SampleBatch(
        columns,
        rewards=torch.randn(ROWS, 1, generator=generator),
        discounts=torch.full((ROWS, 1), 0.9),
        valid=torch.arange(ROWS)[:, None] > 0,
        weights=torch.rand(ROWS, 1, generator=generator),
    )


def quantile_losses(quantiles: NDArray[Any], targets: NDArray[Any]) -> float:
    """Quantile Huber loss of one row's quantiles [K] to targets [M], number by number."""
    total = 0.0
    for i, quantile in enumerate(quantiles):
        for target in targets:
            error = target - quantile
            huber = error**2 / 2 if abs(error) <= 1 else abs(error) - 0.5
            total += abs((2 * i + 1) / (2 * len(quantiles)) - (error < 0)) * huber / len(targets)
    return total


def test_targets_leave_out_the_largest_of_all_critics_pooled_quantiles() -> None:
    quantiles = torch.tensor([[7.0, 9.0, 8.0], [1.0, 3.0, 2.0]]).view(2, 1, 1, 3)
    # Truncating each critic alone would leave out 9 and 3.
    assert truncated_mixture(quantiles, 1).flatten().tolist() == [1, 2, 3, 7]
    assert truncated_mixture(quantiles, 2).flatten().tolist() == [1, 2]
    assert truncated_mixture(quantiles, 0).shape == (6, 1, 1)


def test_the_loss_of_quantile_critics_matches_a_calculation_by_hand() -> None:
    algorithm = TQC(model={"hiddens": []}, num_critics=3, num_quantiles=4, dropped_per_critic=1)
    outputs, batch = outputs_of(algorithm), minibatch()
    actions, log_probs = outputs.sample(batch["next_obs"], batch["next_noise"])
    ahead = outputs.networks.target_values(batch["next_obs"], actions).detach().numpy()
    assert ahead.shape == (3, ROWS, 1, 4)
    kept = np.sort(ahead[:, :, 0].transpose(1, 0, 2).reshape(ROWS, 12))[:, :9]
    cost = math.exp(outputs.log_alpha.item()) * log_probs.detach().numpy()
    targets = batch["rewards"].numpy() + 0.9 * (kept - cost)
    quantiles = outputs.values_of(batch).detach().numpy()[:, :, 0]
    rows = [sum(quantile_losses(own[row], targets[row]) for own in quantiles) for row in range(1, ROWS)]
    loss = algorithm.critics_loss(outputs, batch, {})
    assert loss.total.item() == pytest.approx(np.mean(rows * batch["weights"].numpy()[1:, 0]), rel=1e-5)
    assert loss.priorities is not None
    distance = np.abs(quantiles.mean(-1) - targets.mean(-1)).mean(0)
    np.testing.assert_allclose(loss.priorities[1:], distance[1:], rtol=1e-5)


def test_an_actor_with_quantile_critics_maximizes_the_mean_of_all_quantiles() -> None:
    algorithm = TQC(model={"hiddens": []}, num_critics=3, num_quantiles=4)
    outputs, batch = outputs_of(algorithm), minibatch()
    actions, log_probs = outputs.sample(batch["obs"], batch["noise"])
    values = outputs.networks.values(batch["obs"], actions).mean((0, -1))
    expected = (outputs.log_alpha.exp() * log_probs - values)[1:].mean()
    assert algorithm.actor_loss(outputs, batch, {}).total.item() == pytest.approx(expected.item(), rel=1e-5)


def test_invalid_quantile_settings_are_refused(wording) -> None:
    with wording.raised(SpecError, "dropped_per_critic", "num_quantiles", "25"):
        TQC(dropped_per_critic=25)
    with wording.raised(SpecError, "dropped_per_critic", "num_quantiles"):
        ExtendedSAC(dropped_per_critic=2)
    with pytest.raises(SpecError, match="leave num_target_critics null"):
        TQC(num_target_critics=2)
    with wording.raised(UsageError):
        TQC().policy(Spaces(SPACES.observation, Discrete(2)), 0)


def test_redq_continues_exactly_after_a_restore_and_draws_the_same_critics(tmp_path: Path) -> None:
    settings = {**SMALL, "num_critics": 4, "training_intensity": 2.0, "policy_delay": 2}
    with Training("Pendulum-v1", REDQ(**settings), seed=1) as training:
        training.step()
        training.save(tmp_path / "checkpoint")
        training.step()
        expected = training.running.trainee.learner.flat()
    with Training.restore(tmp_path / "checkpoint") as restored:
        restored.step()
        np.testing.assert_array_equal(restored.running.trainee.learner.flat(), expected)


def test_dropped_units_have_no_effect_and_target_critics_use_a_separate_mask() -> None:
    algorithm = DroQ(model={"hiddens": [4, 6]})
    outputs, batch = outputs_of(algorithm), minibatch()
    plain = outputs.values_of(batch)
    ones = torch.ones(ROWS, 1, 2 * 2 * 10)
    torch.testing.assert_close(with_units(outputs, ones).values_of(batch), plain)
    none = with_units(outputs, ones * 0).networks
    # If all units are dropped, the normalized hidden layers equal their shifts, whatever the action is.
    values = none.values(batch["obs"], batch["actions"])
    torch.testing.assert_close(values, values[:, :1].expand_as(values))
    half = ones.clone()
    half[..., 20:] = 0  # the units of the target critics
    torch.testing.assert_close(with_units(outputs, half).values_of(batch), plain)
    target = with_units(outputs, half).networks.target_values(batch["obs"], batch["actions"])
    torch.testing.assert_close(target, target[:, :1].expand_as(target))


@pytest.mark.parametrize("normalization", ["layer", None])
def test_critics_with_dropout_match_a_calculation_by_hand(normalization: str | None) -> None:
    """Without normalization, the scale of the remaining units matters."""
    model = {"hiddens": [4, 6], "critic_normalization": normalization}
    policy = DroQ(model=model, critic_dropout=0.25).policy(SPACES, 0)
    flat = torch.randn(policy.parameters.size, generator=torch.Generator().manual_seed(0))
    views, batch = policy.parameters.views(flat), minibatch()
    kept = torch.from_numpy(policy.draws(np.random.default_rng(0), ROWS, 1)["kept_units"])
    is_kept = iter(torch.split(kept[:, 0, :20] > 0, [4, 6, 4, 6], -1))  # the other columns are for the target critics
    expected = []
    for critic in ("critics.0", "critics.1"):
        x = torch.cat([batch["obs"], batch["actions"]], -1)[:, 0]
        for layer in (f"{critic}.trunk.0", f"{critic}.trunk.2"):
            x = (x @ views[f"{layer}.weight"].T + views[f"{layer}.bias"]) * next(is_kept) / 0.75
            if normalization:
                x = (x - x.mean(-1, keepdim=True)) / (x.var(-1, correction=0, keepdim=True) + 1e-5).sqrt()
                x = x * views[f"{layer}.norm.weight"] + views[f"{layer}.norm.bias"]
            x = x.relu()
        expected.append(x @ views[f"{critic}.head.weight"].T + views[f"{critic}.head.bias"])
    outputs = policy.outputs(views, SampleBatch(batch, kept_units=kept))
    torch.testing.assert_close(outputs.values_of(batch)[:, :, 0], torch.stack(expected)[..., 0])


def with_units(outputs: SquashedNetworks, kept: Tensor) -> SquashedNetworks:
    return replace(outputs, networks=replace(outputs.networks, kept=kept))


def test_dropout_applies_at_the_configured_rate_only_in_losses_and_with_separate_target_masks() -> None:
    policy = DroQ(model={"hiddens": [100]}, critic_dropout=0.25).policy(SPACES, 0)
    kept = policy.draws(np.random.default_rng(0), 50, 1)["kept_units"]
    assert kept.shape == (50, 1, 2 * 2 * 100)
    assert set(np.unique(kept)) == {np.float32(0), np.float32(1 / 0.75)}
    assert (kept == 0).mean() == pytest.approx(0.25, abs=0.02)
    assert (kept[..., :200] != kept[..., 200:]).any()
    views = policy.parameters.views(policy.parameters.gather(policy.module))
    without = policy.outputs(views, SampleBatch()).networks
    assert without.kept is None  # evaluations and initial priorities drop no units
    assert "kept_units" not in SAC(model={"hiddens": [4]}).policy(SPACES, 0).draws(np.random.default_rng(0), 5, 1)


def test_the_two_halves_of_a_joint_pass_use_independent_dropout_masks() -> None:
    policy = DroQ(model={"hiddens": [4]}, critic_dropout=0.5, joint_targets=True).policy(SPACES, 0)
    batch = minibatch()
    drawn = policy.draws(np.random.default_rng(0), ROWS, 1)["kept_units"]
    batch["kept_units"] = torch.from_numpy(drawn)
    outputs = policy.outputs(policy.parameters.views(policy.parameters.gather(policy.module)), batch)
    actions, _ = outputs.sample(batch["next_obs"], batch["next_noise"])
    networks = outputs.networks
    swapped = replace(networks, kept=torch.cat(networks.kept.chunk(2, -1)[::-1], -1))
    values, ahead = outputs.values_and_next(batch)
    torch.testing.assert_close(values, networks.values(batch["obs"], batch["actions"]))
    torch.testing.assert_close(ahead.values, swapped.values(batch["next_obs"], actions).amin(0).detach())
    assert not torch.allclose(ahead.values, networks.values(batch["next_obs"], actions).amin(0))


@pytest.mark.parametrize(
    "algorithm",
    [
        CrossQ(critic_dropout=0.1, **SMALL),
        DroQ(joint_targets=True, **SMALL),
        CrossQ(num_quantiles=3, **SMALL),
        TQC(**{**SMALL, "model": {"hiddens": [4], "batch_norm": True}}),
    ],
)
def test_joint_passes_can_be_combined_with_dropout_and_quantiles(algorithm: SAC) -> None:
    with Training("Pendulum-v1", algorithm, seed=1) as training:
        assert math.isfinite(training.step()["learner/critics/loss"])


def renormalized_outputs(algorithm: CrossQ, seed: int = 0) -> tuple[SquashedNetworks, Policy, Tensor]:
    policy = algorithm.policy(SPACES, 0)
    flat = torch.randn(policy.parameters.size, generator=torch.Generator().manual_seed(seed))
    views = policy.parameters.views(flat)
    for name, view in views.items():
        if name.endswith("norm.variance"):
            view.square_()
        if name.endswith(".norm.steps"):
            view.fill_(7)
    return policy.outputs(views, SampleBatch()), policy, flat


def test_crossq_values_and_targets_share_the_batch_statistics_of_a_single_pass() -> None:
    algorithm = CrossQ(model={"hiddens": [], "critic_hiddens": []})
    _, policy, flat = renormalized_outputs(algorithm)
    outputs: SquashedNetworks = policy.outputs(policy.parameters.views(flat.requires_grad_()), SampleBatch())
    batch, networks = minibatch(), outputs.networks
    with torch.no_grad():
        actions, log_probs = outputs.sample(batch["next_obs"], batch["next_noise"])  # with running statistics
    inputs = torch.cat(
        [torch.cat([batch[a], b], -1)[:, 0] for a, b in (("obs", batch["actions"]), ("next_obs", actions))]
    )
    normal = (inputs - inputs.mean(0)) / (inputs.var(0, correction=0) + 1e-3).sqrt()
    views = networks.views
    both = torch.stack(
        [
            (normal * views[f"critics.{i}.head.norm.weight"] + views[f"critics.{i}.head.norm.bias"])
            @ views[f"critics.{i}.head.weight"].T
            + views[f"critics.{i}.head.bias"]
            for i in range(2)
        ]
    )[..., 0]
    soft = (both[:, ROWS:].amin(0) - outputs.log_alpha.exp() * log_probs[:, 0]).detach()
    errors = both[:, :ROWS] - batch["rewards"][:, 0] - 0.9 * soft
    expected = (0.5 * errors.square().sum(0) * batch["weights"][:, 0])[1:].mean()
    loss = algorithm.critics_loss(outputs, batch, {})
    assert loss.total.item() == pytest.approx(expected.item(), rel=1e-4)
    found, by_hand = (torch.autograd.grad(total, flat)[0] for total in (loss.total, expected))
    torch.testing.assert_close(found, by_hand, rtol=1e-4, atol=1e-5)  # targets have no gradient
    assert set(loss.assign) == set(algorithm.objectives(policy)[0].assigns)
    mean = views["critics.1.head.norm.mean"]
    torch.testing.assert_close(loss.assign["critics.1.head.norm.mean"], mean + 0.01 * (inputs.mean(0) - mean))
    assert loss.assign["critics.1.head.norm.steps"].tolist() == [8]


def test_crossqs_actor_loss_uses_the_critics_running_statistics() -> None:
    algorithm = CrossQ(model={"hiddens": [4], "critic_hiddens": [4]})
    outputs, policy, _ = renormalized_outputs(algorithm)
    batch = minibatch()
    loss = algorithm.actor_loss(outputs, batch, {})
    assert set(loss.assign) == set(algorithm.objectives(policy)[1].assigns)
    assert {name.partition(".")[0] for name in loss.assign} == {"actor"}
    with batch_statistics(outputs.networks.others["actor"]):
        actions, log_probs = outputs.sample(batch["obs"], batch["noise"])
    values = outputs.networks.values(batch["obs"], actions).amin(0)
    expected = (outputs.log_alpha.exp() * log_probs - values)[1:].mean()
    assert loss.total.item() == pytest.approx(expected.item(), rel=1e-5)


@pytest.mark.parametrize("algorithm", [CrossQ, SimBa, XQC, FlashSAC])
def test_actions_use_running_statistics_and_do_not_depend_on_the_batch(algorithm: type[SAC]) -> None:
    outputs, policy, flat = renormalized_outputs(algorithm(model={"hiddens": [4, 4], "critic_hiddens": [4]}))
    behavior = policy.behavior()
    start, size = policy.acting_range
    behavior.load(Weights(0, flat.numpy()[start : start + size], {}, 0))
    rows = np.random.default_rng(0).normal(size=(6, 3)).astype(np.float32)
    expected = outputs.networks.actor_outputs(torch.from_numpy(rows)[:, None])[:, 0].detach().numpy()
    for number in (1, 6):
        found, _ = behavior.network({"obs": rows[:number]})
        np.testing.assert_allclose(found["outputs"], expected[:number], rtol=1e-4, atol=1e-5)


def test_crossq_stores_its_number_of_updates_in_parameters_and_resumes_exactly(tmp_path: Path) -> None:
    settings = {**SMALL, "model": {"hiddens": [4], "critic_hiddens": [6]}}
    with Training("Pendulum-v1", CrossQ(**settings), seed=1) as training:
        training.step()
        learner = training.running.trainee.learner
        assert learner.target() is None
        training.step()
        updates = learner.sgd_steps
        named = learner.policy.parameters.named(learner.flat())
        assert named["critics.1.trunk.0.norm.steps"] == updates == 14
        assert named["actor.head.norm.steps"] == math.ceil(updates / 3)  # policy_delay
        training.save(tmp_path / "checkpoint")
        training.step()
        expected = learner.flat()
    with Training.restore(tmp_path / "checkpoint") as restored:
        restored.step()
        np.testing.assert_array_equal(restored.running.trainee.learner.flat(), expected)


def test_simba_restores_its_observation_statistics_and_continues_exactly(tmp_path: Path) -> None:
    settings = {**SMALL, "model": {"hiddens": [4], "critic_hiddens": [4]}}
    with Training("Pendulum-v1", SimBa(**settings), seed=1) as training:
        training.step()
        training.save(tmp_path / "checkpoint")
        trainee = training.running.trainee
        (moments,) = trainee.filters.moments.values()
        assert moments.count == trainee.clock.env_steps
        training.step()
        expected = trainee.learner.flat()
    with Training.restore(tmp_path / "checkpoint") as restored:
        restored.step()
        np.testing.assert_array_equal(restored.running.trainee.learner.flat(), expected)


def test_incompatible_layer_settings_are_refused(wording) -> None:
    for settings, reason in (
        ({"model": {"batch_renorm": True}}, "model.batch_renorm needs joint_targets"),
        ({"joint_targets": True, "model": {"core": "gru"}}, "leave model.core null"),
        ({"num_bins": 5, "num_quantiles": 5}, "num_bins and num_quantiles cannot be combined"),
        ({"num_bins": 5, "support": [1.0, 1.0]}, "the smallest return must be below the largest one"),
        (
            {"critic_dropout": 0.1, "model": {"core": "gru"}},
            "critic_dropout works only with plain dense layers; leave out model.core and residual",
        ),
        ({"critic_dropout": 1.0}, "critic_dropout"),
        ({"model": {"residual": True, "normalization": "layer"}}, "include normalization"),
        ({"model": {"residual": True, "hiddens": [4, 8]}}, r"all hiddens must have the same width, not \[4, 8\]"),
        (
            {"joint_targets": True, "model": {"residual": True, "batch_renorm": True}},
            "batch_renorm cannot be combined with batch_norm or residual",
        ),
        ({"model": {"batch_norm": True, "core": "gru"}}, "core cannot be combined with batch_renorm, batch_norm"),
    ):
        with pytest.raises(SpecError, match=reason):
            ExtendedSAC(**settings)
    with wording.raised(UsageError, "joint_targets"):
        CrossQ().policy(Spaces(SPACES.observation, Discrete(2)), 0)


def test_simba_and_crossq_use_their_own_optimizers_and_target_entropy() -> None:
    algorithm = SimBa(model={"hiddens": [4], "critic_hiddens": [4]})
    policy: Any = algorithm.policy(SPACES, 0)
    assert [each.optimizer for each in algorithm.objectives(policy)] == [AdamW(0.01), AdamW(0.01), Adam()]
    assert policy.default_target_entropy == -1.0
    renormalized: Any = CrossQ(model={"hiddens": [4], "critic_hiddens": [4]})
    assert {each.optimizer for each in renormalized.objectives(renormalized.policy(SPACES, 0))} == {Adam(beta_1=0.5)}


def test_networks_and_optimizers_are_reset_at_intervals_but_the_replay_buffer_is_kept(tmp_path: Path) -> None:
    settings = {
        **SMALL,
        "training_intensity": 1.0,
        "reset_interval": 4,
        "min_env_steps_per_iteration": 4,
        "num_critics": 2,
    }
    with Training("Pendulum-v1", REDQ(**{**settings, "learning_starts": 8}), seed=1) as training:
        first = training.running.trainee.learner.flat()
        while training.running.trainee.learner.sgd_steps < 4:
            training.step()
        learner = training.running.trainee.learner
        assert learner.sgd_steps == 4
        again, state = learner.flat(), learner.optimizer_state()
        assert all(not part.any() for part in state.values())
        np.testing.assert_array_equal(learner.target(), again)
        moved = (again != first).mean()
        assert moved > 0.9  # different initial weights; a bias or the temperature may be the same
        assert learner.policy.parameters.named(again)["log_alpha"] == 0.0  # the initial temperature, 1
        training.save(tmp_path / "checkpoint")
        for _ in range(2):
            training.step()
        assert learner.optimizer_state()["critics/steps"] < 4
        expected = learner.flat()
    with Training.restore(tmp_path / "checkpoint") as restored:
        for _ in range(2):
            restored.step()
        np.testing.assert_array_equal(restored.running.trainee.learner.flat(), expected)


def test_quantile_critics_learn_with_a_recurrent_core() -> None:
    settings = {**SMALL, "model": {"hiddens": [4], "core": "gru", "core_width": 4}, "num_quantiles": 3}
    with Training("Pendulum-v1", TQC(**settings, replay={"burn_in": 1, "length": 2, "stride": 1}), seed=1) as training:
        training.step()
        assert training.running.trainee.learner.is_finite()
