import gymnasium
import numpy as np
import pytest

from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.functional.masked import masked_mean
from rlrun.engine.learner.local_learner import LocalLearner
from rlrun.engine.learner.objective import Loss, Objective
from rlrun.engine.nn.model_config import ModelConfig
from rlrun.engine.policy.actor_critic import ActorCriticPolicy
from tests.policies import plain_policy
from tests.rounding import rounding_error


def loss(outputs, batch, scheduled):
    valid = batch["valid"].float()
    policy_loss = -masked_mean(outputs.distribution.log_prob(batch["actions"]) * batch["advantages"], valid)
    value_loss = masked_mean((outputs.values - batch["advantages"]).square(), valid)
    return Loss(policy_loss + value_loss, {"policy_loss": policy_loss, "value_loss": value_loss})


def learner_for(own_loss=None, **more):
    policy = plain_policy(
        ActorCriticPolicy,
        gymnasium.spaces.Box(-1, 1, (3,)),
        gymnasium.spaces.Discrete(2),
        ModelConfig(hiddens=(16,)),
        seed=1,
    )
    settings = {"device": "cpu", "update_executor": "eager", "seed": 3, **more}
    return LocalLearner(policy, [Objective("loss", own_loss or loss, max_grad_norm=0.5)], **settings)


def batch_with_advantages(rows, length=1, seed=0):
    rng = np.random.default_rng(seed)
    return SampleBatch(
        obs=rng.normal(size=(rows, length, 3)).astype(np.float32),
        actions=rng.integers(0, 2, (rows, length)),
        advantages=rng.normal(size=(rows, length)).astype(np.float32),
        valid=rng.random((rows, length)) < 0.8,
    ).zero_invalid()


def learn(learner, batch, **more):
    learner.learn(batch, num_epochs=3, minibatch_size=24, scheduled={"lr": 1e-2}, **more)
    return learner.flat()


@pytest.mark.parametrize("length", [1, 4])
@pytest.mark.parametrize("microbatch_size", [8, 5, 100])
def test_microbatches_give_the_same_update_as_the_whole_minibatch(length, microbatch_size):
    whole, parts = learner_for(), learner_for(microbatch_size=microbatch_size)
    batch = batch_with_advantages(48, length)
    np.testing.assert_allclose(learn(parts, batch), learn(whole, batch), atol=rounding_error(24 * length))
    assert whole.sgd_steps == parts.sgd_steps
    assert whole.take_statistics() == pytest.approx(parts.take_statistics(), abs=rounding_error(24 * length))


def test_the_gradients_of_two_parts_of_a_batch_add_up_to_the_gradient_of_the_whole_batch():
    whole, first, second = (learner_for() for _ in range(3))
    batch = batch_with_advantages(40)
    halves = [batch.map(lambda leaf: leaf[:25]), batch.map(lambda leaf: leaf[25:])]
    total = first.gradients(halves[0], scheduled={"lr": 1e-2}) + second.gradients(halves[1], scheduled={"lr": 1e-2})
    np.testing.assert_allclose(
        total, whole.gradients(batch, scheduled={"lr": 1e-2}), atol=rounding_error(40, size=float(np.abs(total).max()))
    )
    assert total[-1] == batch["valid"].sum()


def test_applying_another_learners_gradients_equals_learning_locally():
    alone, driver, worker = (learner_for() for _ in range(3))
    for seed in range(4):
        batch = batch_with_advantages(32, seed=seed)
        alone.learn(batch, num_epochs=1, minibatch_size=32, scheduled={"lr": 1e-2})
        worker.load_flat(driver.flat())
        gradients = worker.gradients(batch, scheduled={"lr": 1e-2})
        driver.apply_gradients(gradients, worker.statistics_of_gradients, scheduled={"lr": 1e-2})
    np.testing.assert_allclose(driver.flat(), alone.flat(), atol=rounding_error(32))
    assert (driver.sgd_steps, driver.weights_version) == (alone.sgd_steps, alone.weights_version) == (4, 4)
    assert driver.take_statistics() == pytest.approx(alone.take_statistics(), abs=rounding_error(32))


def test_the_shares_of_a_minibatch_are_disjoint_and_together_complete():
    batch = batch_with_advantages(40)
    batch["number"] = np.arange(40, dtype=np.float32).reshape(40, 1)
    batch["valid"][:] = True
    seen = []
    for share in ((0, 2), (1, 2)):
        minibatches = []

        def spy(outputs, rows, scheduled, minibatches=minibatches):
            minibatches.append(sorted(rows["number"][rows["valid"]].tolist()))
            return loss(outputs, rows, scheduled)

        learn(learner_for(spy, share=share, all_reduce=lambda total: total), batch)
        seen.append(minibatches)
    order = np.random.Generator(np.random.Philox(3))
    for first, second in zip(*seen, strict=True):
        assert not set(first) & set(second)
    for epoch in range(3):
        expected = order.permutation(40)
        together = [sorted(a + b) for a, b in zip(seen[0], seen[1], strict=True)][2 * epoch : 2 * epoch + 2]
        assert together == [sorted(expected[:24].tolist()), sorted(expected[24:].tolist())]
