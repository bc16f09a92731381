import numpy as np
import pytest
import torch

import rlrun
from rlrun.algorithms.ppo import PPO, PPOConfig
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.messages.errors import SpecError
from rlrun.engine.policy.action_spaces.box import DiagonalGaussian
from rlrun.engine.policy.action_spaces.discrete import Categorical
from rlrun.engine.policy.actor_critic_outputs import ActorCriticOutputs
from tests.rounding import rounding_error

SCHEDULED = {"clip_param": torch.tensor(0.2), "entropy_coeff": torch.tensor(0.0), "lr": torch.tensor(1e-3)}


def loss_of(*, ratio, advantage, value=0.0, old_value=0.0, target=0.0, entropy_coeff=0.0, valid=(True,), **config):
    """One state with two equally likely actions; the stored log-probability gives the desired ratio."""
    rows = len(valid)
    outputs = ActorCriticOutputs(Categorical(torch.zeros(rows, 1, 2)), torch.full((rows, 1), value))
    batch = SampleBatch(
        actions=torch.zeros(rows, 1, dtype=torch.int64),
        logp=torch.full((rows, 1), np.log(0.5) - np.log(ratio), dtype=torch.float32),
        advantages=torch.full((rows, 1), advantage),
        values=torch.full((rows, 1), old_value),
        value_targets=torch.full((rows, 1), target),
        valid=torch.tensor(valid)[:, None],
        kl_penalty_coeff=torch.full((rows, 1), 0.3),
    )
    scheduled = {**SCHEDULED, "entropy_coeff": torch.tensor(entropy_coeff)}
    return PPO(PPOConfig(**config)).loss(outputs, batch, scheduled)


@pytest.mark.parametrize(
    ("ratio", "advantage", "surrogate"),
    [(1.0, 2.0, 2.0), (1.5, 2.0, 2.4), (0.5, 2.0, 1.0), (1.5, -2.0, -3.0), (0.5, -2.0, -1.6), (1.1, -2.0, -2.2)],
)
def test_the_surrogate_is_the_minimum_of_the_unclipped_and_clipped_objectives(ratio, advantage, surrogate):
    loss = loss_of(ratio=ratio, advantage=advantage)
    assert loss.statistics["policy_loss"].item() == pytest.approx(-surrogate, rel=rounding_error(4))
    assert loss.statistics["clip_fraction"].item() == float(abs(ratio - 1) > 0.2)


def test_the_total_loss_weights_value_loss_and_entropy_by_their_coefficients():
    loss = loss_of(ratio=1.0, advantage=0.0, value=3.0, target=1.0, entropy_coeff=0.1, vf_loss_coeff=0.25)
    assert loss.statistics["value_loss"].item() == pytest.approx(4.0)
    assert loss.statistics["entropy"].item() == pytest.approx(np.log(2))
    assert loss.total.item() == pytest.approx(0.25 * 4.0 - 0.1 * np.log(2))


@pytest.mark.parametrize(
    ("value", "expected"),
    [(1.5, 2.25), (5.0, 9.0)],
    ids=["moved little: the larger error is the free one", "moved far and closer: the clipped error counts"],
)
def test_value_clipping_takes_the_larger_of_the_clipped_and_unclipped_errors(value, expected):
    target = 3.0 if value == 1.5 else 5.0
    loss = loss_of(ratio=1.0, advantage=0.0, value=value, old_value=1.0, target=target, vf_clip_param=1.0)
    assert loss.statistics["value_loss"].item() == pytest.approx(expected)


def test_cells_without_a_step_have_no_gradient_even_under_a_very_narrow_distribution():
    """Zeros as action, log-probability and observation meet a density whose ratio to them is beyond float32."""
    size = 30
    means = torch.zeros(2, 1, size, requires_grad=True)
    outputs = ActorCriticOutputs(
        DiagonalGaussian(torch.cat([means, torch.full((2, 1, size), -5.0)], -1)), torch.zeros(2, 1)
    )
    actions = torch.zeros(2, 1, size)
    actions[0] = 0.001
    logp = outputs.distribution.log_prob(actions).detach() * torch.tensor([[1.0], [0.0]])
    columns = {name: torch.tensor([[1.0], [0.0]]) for name in ("advantages", "values", "value_targets")}
    batch = SampleBatch(actions=actions, logp=logp, valid=torch.tensor([[True], [False]]), **columns)
    loss = PPO(PPOConfig()).loss(outputs, batch, SCHEDULED)
    loss.total.backward()
    assert loss.statistics["policy_loss"].item() == pytest.approx(-1.0)
    assert loss.statistics["kl"].item() == pytest.approx(0.0, abs=rounding_error(size))
    assert torch.isfinite(means.grad).all()
    assert means.grad[0].abs().min() > 0
    assert not means.grad[1].any()


@pytest.mark.parametrize("ratio", [0.01, 0.5, 0.9, 1.0, 1.1, 2.0, 100.0])
def test_the_kl_estimate_is_ratio_minus_1_minus_log_ratio(ratio):
    found = loss_of(ratio=ratio, advantage=0.0).statistics["kl"].item()
    assert found == pytest.approx(ratio - 1 - np.log(ratio), rel=rounding_error(8), abs=rounding_error(4))


def test_the_mean_kl_estimate_over_the_old_policys_actions_is_the_kl_divergence():
    """The old policy's probabilities are 1/8, 3/8 and 4/8, as are the frequencies of the actions in eight steps."""
    old, new = (Categorical(torch.tensor(odds).log().expand(8, 1, 3)) for odds in ([1.0, 3.0, 4.0], [5.0, 1.0, 2.0]))
    actions = torch.tensor([0, 1, 1, 1, 2, 2, 2, 2])[:, None]
    nothing = {name: torch.zeros(8, 1) for name in ("advantages", "values", "value_targets")}
    valid = torch.ones(8, 1, dtype=torch.bool)
    batch = SampleBatch(actions=actions, logp=old.log_prob(actions), valid=valid, **nothing)
    loss = PPO(PPOConfig()).loss(ActorCriticOutputs(new, torch.zeros(8, 1)), batch, SCHEDULED)
    divergence = 1 / 8 * np.log(1 / 5) + 3 / 8 * np.log(3 / 1) + 4 / 8 * np.log(4 / 2)
    assert loss.statistics["kl"].item() == pytest.approx(divergence, rel=rounding_error(16))


def test_invalid_rows_do_not_affect_the_loss_or_its_statistics():
    one = loss_of(ratio=1.5, advantage=2.0, value=1.0)
    padded = loss_of(ratio=1.5, advantage=2.0, value=1.0, valid=(True, False, False))
    assert padded.total.item() == pytest.approx(one.total.item())
    assert padded.statistics["clip_fraction"].item() == 1.0


def test_learner_metrics_lists_exactly_the_statistics_of_the_loss():
    assert {*loss_of(ratio=1.0, advantage=0.0).statistics, "grad_norm"} == {
        metric.name for metric in PPO.learner_metrics
    }


def test_settings_that_accept_a_schedule_are_found_by_their_type():
    assert PPOConfig.scheduled_fields() == ("lr", "clip_param", "entropy_coeff")


def test_a_minibatch_larger_than_the_batch_is_refused(wording):
    with wording.raised(SpecError, "minibatch_size", "train_batch_size", "512"):
        PPOConfig(minibatch_size=512, train_batch_size=256)


def test_advantages_have_mean_0_when_they_reach_the_first_update():
    config = {"train_batch_size": 64, "minibatch_size": 64, "num_epochs": 1, "num_envs_per_worker": 4}
    with rlrun.Training("CartPole-v1", rlrun.PPO(**config, min_env_steps_per_iteration=0, compile=False)) as training:
        loss = training.step()["learner/policy_loss"]
    assert loss == pytest.approx(
        0.0, abs=rounding_error(64, 10.0)
    )  # minus the mean of the standardized advantages while the ratio is 1; about -10 without standardization


def test_the_plan_lists_the_steps_of_ppo_in_order():
    names = [info.name for info in rlrun.Training("CartPole-v1", rlrun.PPO()).description.plan().describe()]
    assert names == [
        "parallel_rollouts",
        "ComputeAdvantages",
        "ConcatBatches",
        "MeasureValues",
        "Standardize",
        "TrainOnBatch",
        "MergeFilters",
        "BroadcastWeights",
    ]


def test_the_kl_penalty_is_added_to_the_loss_but_not_to_its_statistics():
    plain = loss_of(ratio=2.0, advantage=0.0)
    penalized = loss_of(ratio=2.0, advantage=0.0, kl_penalty={"coeff": 0.3})
    assert (penalized.total - plain.total).item() == pytest.approx(0.3 * (1 - np.log(2)), rel=rounding_error(8))
    assert penalized.statistics == plain.statistics
