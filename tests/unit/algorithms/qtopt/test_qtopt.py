import gymnasium
import numpy as np
import pytest
import torch

from rlrun import QTOpt, Training
from rlrun.algorithms.qtopt.policy import NOISE, CriticsPolicy
from rlrun.algorithms.qtopt.qtopt import QTOptConfig
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.messages.errors import SpecError, UsageError
from rlrun.engine.nn.model_config import ActionValueModelConfig
from tests.policies import policy_from
from tests.rounding import rounding_error

PENDULUM = {"id": "Pendulum-v1", "max_episode_steps": 25}
SMALL = {
    "model": {"hiddens": [8]},
    "minibatch_size": 12,
    "learning_starts": 30,
    "min_env_steps_per_iteration": 60,
    "cem_samples": 16,
    "cem_elites": 3,
    "compile": False,
}


def policy_and_flat(training):
    policy = training.running.trainee.learner.policy
    return policy, training.running.trainee.learner.flat()


def minibatch(generator, rows):
    return SampleBatch(
        obs=generator.normal(size=(rows, 1, 3)).astype(np.float32),
        next_obs=generator.normal(size=(rows, 1, 3)).astype(np.float32),
        actions=generator.uniform(-1, 1, (rows, 1, 1)).astype(np.float32),
        rewards=generator.normal(size=(rows, 1)).astype(np.float32),
        discounts=np.full((rows, 1), 0.9, np.float32),
        weights=np.linspace(0.5, 1, rows, dtype=np.float32)[:, None],
        valid=np.ones((rows, 1), np.bool_),
    )


def test_qtopt_acts_greedily_by_its_first_critic():
    with Training(PENDULUM, QTOpt(**{**SMALL, "cem_samples": 64, "cem_elites": 6}), seed=1) as training:
        training.start()
        policy, flat = policy_and_flat(training)
        flat = flat * 3
        behavior = policy.behavior()
        start, size = policy.acting_range
        behavior.network.load(flat[start : start + size])
        obs = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)
        grid = np.linspace(-1, 1, 401, dtype=np.float32)
        views = policy.parameters.views(torch.from_numpy(flat))
        repeated = torch.from_numpy(obs).repeat_interleave(401, 0)[:, None]
        actions = torch.from_numpy(np.tile(grid, 5))[:, None, None]
        values = policy.outputs(views, SampleBatch()).values(repeated, actions)[0].view(5, 401).numpy()
        own = behavior.outputs(obs)
        at = np.abs(grid[None] - own).argmin(-1)
        assert (values.max(-1) - values[np.arange(5), at] <= 0.02 * np.ptp(values, axis=-1)).all()
        env_actions = behavior.actions(obs, None)
        np.testing.assert_allclose(env_actions, 2 * own, rtol=rounding_error(2))  # Pendulum's bounds are -2 and 2
        np.testing.assert_array_equal(behavior.actions(obs, None), env_actions)


def test_targets_use_the_minimum_of_both_target_critics_at_the_target_networks_greedy_action():
    generator = np.random.default_rng(4)
    with Training(PENDULUM, QTOpt(**SMALL), seed=1) as training:
        training.start()
        policy, flat = policy_and_flat(training)
        batch = minibatch(generator, 6)
        batch[NOISE] = generator.standard_normal((6, 1, 2, 16, 1)).astype(np.float32)
        views, target_views = (
            policy.parameters.views(torch.from_numpy(vector)) for vector in (flat, np.float32(2) * flat[::-1].copy())
        )
        tensors = batch.map(torch.from_numpy)
        outputs = policy.outputs(views, tensors, target_views)
        loss = training.description.algorithm.loss(outputs, tensors, {})
        next_actions = outputs.target_greedy_actions(tensors["next_obs"], tensors[NOISE])
        assert next_actions.shape == (6, 1, 1)
        next_values = outputs.target_values(tensors["next_obs"], next_actions).numpy()
        values = outputs.values(tensors["obs"], tensors["actions"]).numpy()
        targets = batch["rewards"] + 0.9 * next_values.min(0)
        errors = values - targets
        expected = ((errors**2).sum(0) * batch["weights"]).mean()
        assert float(loss.total) == pytest.approx(expected, rel=rounding_error(6))
        np.testing.assert_allclose(loss.priorities.numpy(), np.abs(errors).mean(0)[:, 0], rtol=rounding_error(6))


@pytest.mark.usefixtures("traced_updates")
def test_traced_updates_match_eager_updates():
    flats = []
    for compiled in (False, True):
        with Training(PENDULUM, QTOpt(**{**SMALL, "compile": compiled}), seed=2) as training:
            result = training.step()
            flats.append(training.running.trainee.learner.flat())
    assert result["sgd_steps"] >= 30
    np.testing.assert_allclose(flats[1], flats[0], atol=rounding_error(12 + 30))


def test_a_resumed_run_matches_an_uninterrupted_run_bit_for_bit(tmp_path):
    with Training(PENDULUM, QTOpt(**SMALL), seed=4) as training:
        training.step()
        training.save(tmp_path / "checkpoint")
        expected = training.step()
        flat = training.running.trainee.learner.flat()
    with Training.restore(tmp_path / "checkpoint") as restored:
        result = restored.step()
        np.testing.assert_array_equal(restored.running.trainee.learner.flat(), flat)
    for name in ("env_steps", "sgd_steps", "learner/loss"):
        assert result[name] == expected[name]


def test_policies_can_act_on_image_observations():
    spaces = gymnasium.spaces.Box(0, 255, (36, 36, 4), np.uint8), gymnasium.spaces.Box(-1, 1, (2,), np.float32)
    policy = policy_from(
        CriticsPolicy,
        QTOptConfig,
        *spaces,
        ActionValueModelConfig(hiddens=(8,)),
        seed=0,
        cem_iterations=2,
        cem_samples=8,
        cem_elites=2,
        learning_starts=0,
    )
    behavior = policy.behavior()
    start, size = policy.acting_range
    behavior.network.load(policy.parameters.gather(policy.module).numpy()[start : start + size])
    images = np.random.default_rng(0).integers(0, 256, (3, 36, 36, 4), np.uint8)
    assert behavior.actions(images, None).shape == (3, 2)


def test_discrete_actions_are_refused(wording):
    with wording.raised(UsageError):
        Training("CartPole-v1", QTOpt(**SMALL), seed=1).start()


def test_setting_more_elites_than_samples_is_refused(wording):
    with wording.raised(SpecError, "cem_elites", "cem_samples"):
        QTOptConfig(cem_samples=8, cem_elites=9)
