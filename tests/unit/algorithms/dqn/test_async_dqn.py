from dataclasses import replace

import numpy as np

from rlrun import DQN, AsyncDQN, Gorila, Training
from rlrun.algorithms.dqn.async_dqn import AsyncDQNConfig
from rlrun.algorithms.dqn.gorila import GorilaConfig
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.flow.operators.gradients import ComputeGradients
from rlrun.engine.messages.errors import SpecError
from tests.rounding import rounding_error

LINEAR = {"num_envs_per_worker": 2, "model": {"hiddens": []}, "gamma": 0.9, "max_grad_norm": None, "compile": False}
REPLAYED = {
    "model": {"hiddens": [8], "activation": "tanh", "orthogonal_init": True},
    "minibatch_size": 16,
    "learning_starts": 30,
    "training_intensity": 0.25,
    "rollout_fragment_length": 4,
    "target_update_interval": 5,
    "min_env_steps_per_iteration": 100,
    "epsilon": 0.2,
    "n_step": 2,
    "double": True,
    "replay": {"capacity": 500},
    "compile": False,
}


def returns_of(rewards, terminateds, valid, best, gamma):
    """Returns [T, B], step by step from the end; `best` [T + 1, B] holds the values to bootstrap from."""
    length, columns = rewards.shape
    found = np.zeros((length, columns))
    for b in range(columns):
        ahead = best[length, b]
        for t in reversed(range(length)):
            if not valid[t, b]:  # the final observation of an episode
                ahead = best[t, b]
            else:
                ahead = found[t, b] = rewards[t, b] + (0.0 if terminateds[t, b] else gamma * ahead)
    return found


def test_gradients_use_n_step_returns_with_the_target_network_sent_with_the_weights():
    generator = np.random.default_rng(3)
    length, columns = 6, 2
    obs = generator.normal(size=(length + 1, columns, 4)).astype(np.float32)
    rewards = generator.normal(size=(length, columns)).astype(np.float32)
    actions = generator.integers(2, size=(length, columns))
    terminateds, truncateds, valid = (np.zeros((length, columns), np.bool_) for _ in range(3))
    valid[:] = True
    terminateds[1, 0], valid[2, 0] = True, False
    truncateds[3, 1], valid[4, 1] = True, False
    batch = SampleBatch(
        obs=obs, actions=actions, rewards=rewards, terminateds=terminateds, truncateds=truncateds, valid=valid
    )
    with Training("CartPole-v1", AsyncDQN(**LINEAR), seed=1) as training:
        training.start()
        trainee = training.running.trainee
        compute = ComputeGradients(trainee.learner_factory, whole_fragments=True)
        flat = trainee.learner.flat()
        target = generator.normal(size=flat.shape).astype(np.float32)
        weights = trainee.weights()
        compute.set_weights(replace(weights, learning=replace(weights.learning, target=target)))
        gradients = compute(batch)
        named = trainee.policy.parameters.named
        weight, bias = named(flat).values()
        target_weight, target_bias = named(target).values()
        best = (obs @ target_weight.T + target_bias).max(-1)
        weight_gradient, bias_gradient = named(gradients["sums"][: len(flat)] / valid.sum()).values()
    values = np.take_along_axis(obs[:-1] @ weight.T + bias, actions[..., None], -1)[..., 0]
    errors = (values - returns_of(rewards, terminateds, valid, best, 0.9)) * valid / valid.sum()
    chosen = np.eye(2)[actions]
    np.testing.assert_allclose(
        bias_gradient,
        np.einsum("tb,tba->a", errors, chosen),
        rtol=rounding_error(length * columns),
        atol=rounding_error(length * columns),
    )
    expected = np.einsum("tb,tba,tbo->ao", errors, chosen, obs[:-1])
    near = rounding_error(length * columns)
    np.testing.assert_allclose(weight_gradient, expected, rtol=near, atol=near)
    assert gradients["steps"] == valid.sum()


def test_workers_compute_gradients_with_the_drivers_target_network():
    config = {**LINEAR, "rollout_fragment_length": 5, "min_env_steps_per_iteration": 40, "target_update_interval": 3}
    with Training("CartPole-v1", AsyncDQN(**config), seed=1) as training:
        training.step()
        assert training.running.trainee.learner.sgd_steps % 3
        (compute,) = training.running.workers.started.sampler._operators["default"].operators
        sent = compute._weights.learning
        np.testing.assert_array_equal(sent.flat, training.running.trainee.learner.flat())
        np.testing.assert_array_equal(sent.target, training.running.trainee.learner.target())
        assert np.abs(sent.flat - sent.target).max() > 0


def test_a_restored_run_with_the_local_worker_continues_bit_for_bit(tmp_path):
    for algorithm_class, config in ((AsyncDQN, {**LINEAR, "min_env_steps_per_iteration": 100}), (Gorila, REPLAYED)):
        with Training("CartPole-v1", algorithm_class(**config), seed=4) as training:
            for _ in range(2):
                training.step()
            training.save(tmp_path / algorithm_class.__name__)
            expected = training.step()
            flat = training.running.trainee.learner.flat()
        with Training.restore(tmp_path / algorithm_class.__name__) as restored:
            result = restored.step()
            np.testing.assert_array_equal(restored.running.trainee.learner.flat(), flat)
        for name in ("env_steps", "sgd_steps", "episode_return_mean", "learner/grad_norm"):
            assert result[name] == expected[name]


def test_gorila_with_only_the_local_worker_matches_dqn():
    found = []
    for algorithm_class in (DQN, Gorila):
        with Training("CartPole-v1", algorithm_class(**REPLAYED), seed=3) as training:
            results = [training.step() for _ in range(4)]
            found.append((training.running.trainee.learner.flat(), training.running.trainee.learner.target(), results))
    (flat, target, expected), (own_flat, own_target, results) = found
    assert expected[-1]["sgd_steps"] > 80
    np.testing.assert_allclose(own_flat, flat, atol=rounding_error(16 + 80))
    np.testing.assert_allclose(own_target, target, atol=rounding_error(16 + 80))
    assert abs(results[-1]["sgd_steps"] - expected[-1]["sgd_steps"]) <= 1  # Gorila ends iterations with a gradient
    assert results[-1]["gradient_share/worker_0"] == 1.0


def test_central_learner_settings_and_epsilon_shares_that_do_not_sum_to_1_are_refused(wording):
    for config_class in (AsyncDQNConfig, GorilaConfig):
        with wording.raised(SpecError, "num_gpus"):
            config_class(num_gpus=1)
        with wording.raised(SpecError, "num_learners"):
            config_class(num_learners=2)
        with wording.raised(SpecError, "normalize_observations"):
            config_class(normalize_observations=True)
    with wording.raised(SpecError, "replay.sampling"):
        GorilaConfig(replay={"sampling": "prioritized"})
    with wording.raised(SpecError, "noisy"):
        GorilaConfig(noisy=True)
    with wording.raised(SpecError, "final_epsilon_shares", "final_epsilons"):
        AsyncDQNConfig(final_epsilons=(0.1, 0.2), final_epsilon_shares=(0.5, 0.4))


def test_the_plan_shows_what_runs_on_the_workers():
    plan = Training("CartPole-v1", Gorila(num_workers=2, replay={"capacity": 1000})).description.plan().describe()
    assert [info.name for info in plan] == [
        "parallel_rollouts",
        "each_gradient",
        "zip_with_worker",
        "ApplyGradients",
        "UpdateTargetNetwork",
        "MergeFilters",
        "zip_with_worker",
        "SendWeights",
    ]
    (on_workers,) = plan[0].on_workers
    assert on_workers == (
        "ComputeReplayedGradients",
        {"capacity": 500, "minibatch_size": 64, "training_intensity": 0.25},
    )
