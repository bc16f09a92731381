import numpy as np
import pytest
import torch

from rlrun.algorithms.a2c import A2C
from rlrun.algorithms.impala.appo import APPO
from rlrun.algorithms.impala.impala import Impala
from rlrun.algorithms.pg.pg import PG
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.functional.returns import gae
from rlrun.engine.policy.action_spaces.discrete import Categorical
from rlrun.engine.policy.actor_critic_outputs import ActorCriticOutputs
from tests.rounding import rounding_error

SCHEDULED = {name: torch.tensor(0.0) for name in ("entropy_coeff", "kl_coeff")} | {"clip_param": torch.tensor(0.2)}
S, L = 4, 6


def outputs_of(logits, values):
    return ActorCriticOutputs(Categorical(logits), values)


def random_tensor(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def fragment_rows(seed=0):
    """Rows of whole fragments; the second one was terminated, the third one truncated."""
    rng = np.random.default_rng(seed)
    valid, terminateds = np.ones((S, L), bool), np.zeros((S, L), bool)
    valid[:, -1] = valid[1, 3] = valid[2, 3] = False
    terminateds[1, 2] = True
    return SampleBatch(
        actions=torch.from_numpy(rng.integers(0, 3, (S, L)) * valid),
        rewards=torch.from_numpy(rng.normal(size=(S, L)) * valid),
        terminateds=torch.from_numpy(terminateds),
        valid=torch.from_numpy(valid),
    )


@pytest.mark.parametrize("algorithm", [PG, A2C])
def test_the_policy_gradient_is_the_score_times_the_advantage(algorithm):
    logits = random_tensor(1, 1, 3).requires_grad_()
    values = torch.tensor([[2.0]])
    batch = SampleBatch(
        actions=torch.tensor([[1]]),
        advantages=torch.tensor([[1.5]]),
        value_targets=torch.tensor([[5.0]]),
        valid=torch.tensor([[True]]),
    )
    loss = algorithm(algorithm.Config()).loss(outputs_of(logits, values), batch, SCHEDULED)
    loss.total.backward()
    probabilities = logits.detach().softmax(-1)
    score = torch.tensor([[[0.0, 1.0, 0.0]]]) - probabilities  # d log softmax / d logits
    torch.testing.assert_close(logits.grad, -1.5 * score)
    assert loss.statistics["value_loss"].item() == pytest.approx(9.0)
    assert loss.total.item() == pytest.approx(-1.5 * probabilities[0, 0, 1].log().item() + 0.5 * 9.0)


def test_no_value_is_learned_without_a_baseline():
    values = torch.tensor([[2.0]], requires_grad=True)
    batch = SampleBatch(
        actions=torch.tensor([[0]]),
        advantages=torch.tensor([[1.0]]),
        value_targets=torch.tensor([[5.0]]),
        valid=torch.tensor([[True]]),
    )
    PG(PG.Config(use_baseline=False)).loss(
        outputs_of(random_tensor(1, 1, 3), values), batch, SCHEDULED
    ).total.backward()
    assert values.grad.item() == 0.0


def impala_gradients(batch, logits, values, **config):
    logits, values = logits.clone().requires_grad_(), values.clone().requires_grad_()
    loss = Impala(Impala.Config(**config)).loss(outputs_of(logits, values), batch, SCHEDULED)
    loss.total.backward()
    return loss, logits.grad, values.grad


def test_on_policy_impala_is_a2c_on_n_step_returns():
    batch, logits, values = fragment_rows(), random_tensor(S, L, 3), random_tensor(S, L, seed=1)
    batch["logp"] = Categorical(logits).log_prob(batch["actions"])
    found, policy_gradient, value_gradient = impala_gradients(batch, logits, values, gamma=0.9)
    ends = np.zeros((S, L), bool)
    ends[2, 2] = True
    advantages, targets = gae(
        batch["rewards"].numpy()[:, :-1].T,
        values.numpy().T.astype(np.float64),
        batch["terminateds"].numpy()[:, :-1].T,
        ends[:, :-1].T,
        0.9,
        1.0,
    )
    pad = np.zeros((S, 1))
    batch["advantages"] = torch.from_numpy(np.hstack([advantages.T, pad])).float()
    batch["value_targets"] = torch.from_numpy(np.hstack([targets.T, pad])).float()
    logits, values = logits.requires_grad_(), values.requires_grad_()
    expected = A2C(A2C.Config()).loss(outputs_of(logits, values), batch, SCHEDULED)
    expected.total.backward()
    torch.testing.assert_close(found.total, expected.total)
    torch.testing.assert_close(policy_gradient, logits.grad)
    torch.testing.assert_close(value_gradient, values.grad)
    assert found.statistics["mean_ratio"].item() == pytest.approx(1.0)


def test_impala_downweights_actions_that_became_less_likely_and_caps_weights_at_1():
    batch, logits, values = fragment_rows(), random_tensor(S, L, 3), random_tensor(S, L, seed=1)
    logp = Categorical(logits).log_prob(batch["actions"])
    gradients = []
    for older in (0.0, 1.0, -1.0):  # the log-probability under the older policy, relative to the current one
        batch["logp"] = logp + older
        gradients.append(impala_gradients(batch, logits, values, gamma=0.0)[1])
    torch.testing.assert_close(gradients[1], np.exp(-1) * gradients[0])
    torch.testing.assert_close(gradients[2], gradients[0])


@pytest.mark.parametrize("make", [Impala, APPO])
def test_garbage_in_cells_without_a_step_does_not_affect_the_gradient(make):
    gradients = []
    for garbage in (0.0, 50.0):
        batch = fragment_rows()
        logits, values = random_tensor(S, L, 3).requires_grad_(), random_tensor(S, L, seed=1).requires_grad_()
        batch["logp"] = Categorical(random_tensor(S, L, 3, seed=2)).log_prob(batch["actions"])
        batch["target_outputs"] = random_tensor(S, L, 3, seed=3)
        empty = ~batch["valid"]
        batch["logp"] = batch["logp"].masked_fill(empty, -garbage)
        batch["rewards"] = batch["rewards"].masked_fill(empty, garbage)
        make(make.Config(num_epochs=2)).loss(outputs_of(logits, values), batch, SCHEDULED).total.backward()
        assert torch.isfinite(logits.grad).all()
        assert not logits.grad[empty].any()
        assert not values.grad[empty].any()
        gradients.append((logits.grad, values.grad))
    torch.testing.assert_close(gradients[0], gradients[1])


def appo_loss(moved, *, kl_coeff=0.0):
    """One step with advantage 1, whose action is now exp(moved) times as likely as under the target policy."""
    target = torch.tensor([[[0.0, 0.0], [0.0, 0.0]]])
    probability = 0.5 * np.exp(moved)
    logits = torch.tensor([[[probability, 1 - probability], [0.5, 0.5]]]).log().requires_grad_()
    batch = SampleBatch(
        actions=torch.tensor([[0, 0]]),
        logp=torch.full((1, 2), np.log(0.5)),
        rewards=torch.tensor([[1.0, 0.0]]),
        terminateds=torch.tensor([[True, False]]),
        valid=torch.tensor([[True, False]]),
        target_outputs=target,
    )
    scheduled = {**SCHEDULED, "kl_coeff": torch.tensor(kl_coeff)}
    loss = APPO(APPO.Config(num_epochs=2)).loss(outputs_of(logits, torch.zeros(1, 2)), batch, scheduled)
    (gradient,) = torch.autograd.grad(loss.total, logits)
    return loss, gradient


@pytest.mark.parametrize(
    ("moved", "surrogate", "is_clipped"), [(0.0, 1.0, False), (-0.3, np.exp(-0.3), False), (0.3, 1.2, True)]
)
def test_the_appo_surrogate_is_clipped_relative_to_the_target_policy(moved, surrogate, is_clipped):
    loss, gradient = appo_loss(moved)
    assert loss.statistics["policy_loss"].item() == pytest.approx(-surrogate, rel=rounding_error(4))
    assert bool(gradient.any()) is not is_clipped


def test_the_appo_loss_adds_the_weighted_kl_from_the_target_policy():
    loss, _ = appo_loss(0.3, kl_coeff=2.0)
    p, q = np.array([0.5, 0.5]), np.array([0.5 * np.exp(0.3), 1 - 0.5 * np.exp(0.3)])
    divergence = float((p * np.log(p / q)).sum())
    assert loss.statistics["kl"].item() == pytest.approx(divergence, rel=rounding_error(4))
    assert (loss.total - appo_loss(0.3)[0].total).item() == pytest.approx(2 * divergence, rel=rounding_error(8))
