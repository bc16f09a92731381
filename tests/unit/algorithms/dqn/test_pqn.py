"""PQN: Q(lambda) targets by hand, its loss, and a resume."""

import numpy as np
import pytest
import torch
from gymnasium.spaces import Discrete
from hypothesis import given
from hypothesis import strategies as st

import rlrun
from rlrun.algorithms.dqn.pqn import PQN, PQNConfig, QLambdaTargets
from rlrun.engine.data.action_masks import FORBIDDEN
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.envs.spaces import Spaces
from rlrun.engine.messages.errors import SpecError

GAMMA, LAMBDA = 0.9, 0.5


def targets_of(best, rewards, terminated=(), truncated=(), final=()):
    """Returns the targets of one env slot whose better action has the values `best` [T + 1]."""
    length, steps = len(rewards), np.arange(len(rewards))
    batch = SampleBatch(
        q_values=np.stack([np.array(best) - 1, best], -1).astype(np.float32)[:, None],
        rewards=np.array(rewards, np.float32)[:, None],
        terminateds=np.isin(steps, terminated)[:, None],
        truncateds=np.isin(steps, truncated)[:, None],
        valid=~np.isin(steps, final)[:, None],
    )
    found = QLambdaTargets(GAMMA, LAMBDA)(batch)
    assert "q_values" not in found
    assert found["q_targets"].shape == (length, 1)
    return found["q_targets"][:, 0].tolist()


def test_targets_mix_the_next_steps_target_with_its_best_value():
    last = 2.0 + GAMMA * 7.0
    assert targets_of([5.0, 6.0, 7.0], [1.0, 2.0]) == pytest.approx(
        [1 + GAMMA * (LAMBDA * last + (1 - LAMBDA) * 6), last]
    )


def test_a_truncation_bootstraps_from_the_best_value_of_its_final_observation_and_a_termination_does_not():
    # Row 1 holds the final observation; the episode after it must not leak into the one before.
    assert targets_of([5.0, 6.0, 7.0, 8.0], [1.0, 0.0, 3.0], truncated=[0], final=[1]) == pytest.approx(
        [1 + GAMMA * 6.0, 0.0, 3 + GAMMA * 8.0]
    )
    assert targets_of([5.0, 6.0, 7.0, 8.0], [1.0, 0.0, 3.0], terminated=[0], final=[1]) == pytest.approx(
        [1.0, 0.0, 3 + GAMMA * 8.0]
    )


def test_a_final_observation_without_allowed_actions_has_value_0():
    forbidden = [5.0, FORBIDDEN, 7.0]
    for ends in ({"terminated": [0]}, {"truncated": [0]}):
        assert targets_of(forbidden, [1.0, 0.0], final=[1], **ends)[0] == 1.0


@given(
    st.lists(st.tuples(st.floats(-5, 5), st.floats(-5, 5)), min_size=1, max_size=9), st.sampled_from([0.0, 0.3, 1.0])
)
def test_targets_equal_the_lambda_returns_computed_backward_step_by_step(steps, q_lambda):
    rewards, best = np.array(steps).T
    values = np.append(best, 1.0)
    expected, following = [], values[-1]
    for reward, value in zip(rewards[::-1], values[:0:-1], strict=True):
        following = reward + GAMMA * (q_lambda * following + (1 - q_lambda) * value)
        expected.append(following)
    shape = (len(rewards), 1)
    batch = SampleBatch(
        q_values=values.astype(np.float32)[:, None, None],
        rewards=rewards.astype(np.float32)[:, None],
        terminateds=np.zeros(shape, np.bool_),
        truncateds=np.zeros(shape, np.bool_),
        valid=np.ones(shape, np.bool_),
    )
    found = QLambdaTargets(GAMMA, q_lambda)(batch)["q_targets"][:, 0]
    np.testing.assert_allclose(found, expected[::-1], atol=1e-4)


def test_the_loss_is_half_the_squared_error_of_the_taken_action():
    algorithm = PQN(PQNConfig.parse({"model": {"hiddens": []}}))
    policy = algorithm.policy(Spaces(Discrete(2), Discrete(2)), seed=0)
    views = policy.parameters.views(torch.tensor([1.0, 2.0, 3.0, 4.0, 0.0, 0.0]))  # Q = [[1, 3], [2, 4]]
    batch = SampleBatch(
        obs=torch.tensor([[0], [1], [1]]),
        actions=torch.tensor([[1], [0], [1]]),
        q_targets=torch.tensor([[5.0], [2.5], [99.0]]),
        valid=torch.tensor([[True], [True], [False]]),
    )
    assert algorithm.loss(policy.outputs(views, batch), batch, {}).total.item() == pytest.approx((4 + 0.25) / 2 / 2)


def test_a_minibatch_larger_than_the_batch_is_refused(wording):
    with wording.raised(SpecError, "train_batch_size"):
        PQNConfig.parse({"train_batch_size": 64, "minibatch_size": 65})


def test_pqn_continues_bit_for_bit_after_a_resume(tmp_path):
    settings = {
        "num_envs_per_worker": 2,
        "train_batch_size": 32,
        "minibatch_size": 16,
        "min_env_steps_per_iteration": 64,
        "model": {"hiddens": [8]},
        "compile": False,
    }
    with rlrun.Training("CartPole-v1", rlrun.PQN(**settings), seed=1) as training:
        training.step()
        training.save(tmp_path / "saved")
        training.step()
        expected = training.running.trainee.learner.flat()
    with rlrun.Training.restore(tmp_path / "saved") as training:
        training.step()
        np.testing.assert_array_equal(training.running.trainee.learner.flat(), expected)
