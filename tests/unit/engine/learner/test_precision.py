import gymnasium
import numpy as np
import pytest
import torch

from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.functional.masked import masked_mean
from rlrun.engine.learner.local_learner import LocalLearner
from rlrun.engine.learner.objective import Loss, Objective
from rlrun.engine.nn.model_config import ModelConfig
from rlrun.engine.policy.actor_critic import ActorCriticPolicy
from tests.policies import plain_policy


def regression(outputs, batch, scheduled):
    assert outputs.values.dtype == outputs.distribution.log_prob(batch["actions"]).dtype == torch.float32
    loss = masked_mean((outputs.values - batch["targets"]).square(), batch["valid"].float())
    return Loss(loss, {"loss": loss})


def learner_for(precision, **more):
    policy = plain_policy(
        ActorCriticPolicy,
        gymnasium.spaces.Box(-1, 1, (3,)),
        gymnasium.spaces.Discrete(2),
        ModelConfig(hiddens=(32,)),
        seed=1,
    )
    objectives = [Objective("loss", regression, max_grad_norm=1.0)]
    settings = {"device": "cpu", "update_executor": "eager", "seed": 3, **more}
    return LocalLearner(policy, objectives, precision=precision, **settings)


def single_rows(rows):
    rng = np.random.default_rng(0)
    obs = rng.normal(size=(rows, 1, 3)).astype(np.float32)
    return SampleBatch(
        obs=obs,
        actions=np.zeros((rows, 1), np.int64),
        targets=obs.sum(-1),
        valid=np.ones((rows, 1), bool),
    )


def test_a_bfloat16_gradient_is_close_but_not_equal_to_the_float32_gradient():
    exact, rounded = (
        learner_for(name).gradients(single_rows(64), scheduled={"lr": 1e-2})[:-2] for name in ("float32", "bfloat16")
    )
    difference = np.linalg.norm(exact - rounded) / np.linalg.norm(exact)
    assert 1e-5 < difference < 0.03


@pytest.mark.parametrize("microbatch_size", [None, 16])
def test_a_learner_in_bfloat16_learns_and_keeps_float32_parameters(microbatch_size):
    learner = learner_for("bfloat16", microbatch_size=microbatch_size)
    losses = []
    for _ in range(30):
        learner.learn(single_rows(64), num_epochs=2, minibatch_size=32, scheduled={"lr": 1e-2})
        losses.append(learner.take_statistics()["loss"])
    assert losses[0] > 1
    assert losses[-1] < 0.05
    assert learner.flat().dtype == np.float32
    assert not np.array_equal(learner.flat(), torch.from_numpy(learner.flat()).bfloat16().float().numpy())
    assert all(part.dtype == np.float32 for part in learner.optimizer_state().values())


def test_the_target_network_returns_float32():
    learner = learner_for("bfloat16", has_target=True)
    exact = learner_for("float32", has_target=True)
    batch = SampleBatch(obs=np.random.default_rng(0).normal(size=(5, 2, 3)).astype(np.float32), valid=np.ones((5, 2)))
    found = learner.target_outputs(batch)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, exact.target_outputs(batch), atol=0.02)
