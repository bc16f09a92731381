import math

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete

from rlrun.algorithms.actor_q.sac import SACConfig
from rlrun.algorithms.actor_q.soft_networks import averaged
from rlrun.algorithms.actor_q.soft_policy import SoftPolicy
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.data.tree import map_tree
from rlrun.engine.messages.errors import UsageError
from rlrun.engine.nn.model_config import SoftModelConfig
from rlrun.engine.policy.action_spaces.squashed_box import SquashedGaussian
from tests.policies import loaded, policy_from, samples
from tests.rounding import rounding_error

NESTED = Dict({"a": Box(-1, 1, (2, 3)), "b": MultiDiscrete([2, 3])})
ASYMMETRIC = Box(np.array([-3.0, 10.0], np.float32), np.array([1.0, 14.0], np.float32))
NEAR = rounding_error(11 + 16 + 8)  # inputs of all layers: the nested observation, both hidden ones


def policy_for(action_space=ASYMMETRIC, uniform_steps=0, observation_space=NESTED):
    return policy_from(
        SoftPolicy,
        SACConfig,
        observation_space,
        action_space,
        SoftModelConfig(hiddens=(16, 8), activation="relu", orthogonal_init=False),
        seed=5,
        learning_starts=uniform_steps,
        initial_alpha=0.5,
    )


def torch_outputs(policy, observations):
    networks = policy.outputs(dict(policy.module.named_parameters()), SampleBatch())
    rows = map_tree(lambda leaf: torch.as_tensor(leaf)[:, None], observations)
    with torch.no_grad():
        return networks.networks.actor_outputs(rows)


def log_densities_at(actions, mean, log_std):
    """Log-densities of squashed actions, computed from the noise that leads to them."""
    actions = torch.as_tensor(actions, dtype=torch.float64)
    noise = (actions.atanh() - mean) / math.exp(log_std)
    outputs = torch.tensor([mean, log_std], dtype=torch.float64).expand(len(actions), 2)
    drawn, densities = SquashedGaussian(outputs).sample_and_log_prob(noise[:, None])
    torch.testing.assert_close(drawn[:, 0], actions)
    return densities.numpy()


@pytest.mark.parametrize(("mean", "log_std"), [(0.0, 0.0), (0.7, -1.0), (-1.5, 0.5), (0.2, -2.5)])
def test_the_density_of_squashed_actions_integrates_to_one(mean, log_std):
    nodes, weights = np.polynomial.legendre.leggauss(400)
    assert np.exp(log_densities_at(nodes, mean, log_std)) @ weights == pytest.approx(1.0, abs=1e-4)


@pytest.mark.parametrize(("mean", "log_std"), [(0.0, 0.0), (0.7, -1.0), (-1.5, 0.5)])
def test_log_densities_follow_from_the_change_of_variables_by_numerical_differentiation(mean, log_std):
    u, step = np.linspace(-3, 3, 61), 1e-5
    derivative = (np.tanh(u + step) - np.tanh(u - step)) / (2 * step)
    scaled = (u - mean) / math.exp(log_std)
    expected = -0.5 * scaled**2 - log_std - 0.5 * math.log(2 * math.pi) - np.log(derivative)
    np.testing.assert_allclose(log_densities_at(np.tanh(u), mean, log_std), expected, atol=1e-7)


def test_log_densities_stay_exact_in_float32_where_the_action_rounds_to_one():
    outputs = torch.tensor([[30.0, 0.0], [-30.0, 0.0]])
    actions, densities = SquashedGaussian(outputs).sample_and_log_prob(torch.zeros(2, 1))
    assert actions.flatten().tolist() == [1.0, -1.0]
    # 1 - tanh(u)^2 is 4 exp(-2 |u|) to within exp(-60).
    expected = -0.5 * math.log(2 * math.pi) - (math.log(4) - 60)
    torch.testing.assert_close(densities, torch.full((2,), expected))


def test_log_densities_of_several_action_dimensions_add_up():
    outputs, noise = torch.randn(5, 6), torch.randn(5, 3)
    parts = [SquashedGaussian(outputs[:, [i, i + 3]]).sample_and_log_prob(noise[:, [i]]) for i in range(3)]
    actions, densities = SquashedGaussian(outputs).sample_and_log_prob(noise)
    torch.testing.assert_close(densities, sum(part[1] for part in parts))
    torch.testing.assert_close(actions, torch.cat([part[0] for part in parts], -1))


def test_actor_and_learner_draw_the_same_action_from_the_same_noise():
    policy, observations = policy_for(), samples(NESTED, 50)
    behavior = loaded(policy)
    noise = behavior.noise_source.noise(np.random.default_rng(0), 1, 50)[0]
    record = behavior.collector.allocate(1, 50)
    given = behavior.act(observations, noise, record, 0, np.zeros(50, bool))
    actor = SquashedGaussian(torch_outputs(policy, observations)[:, 0])
    expected, _ = actor.sample_and_log_prob(torch.as_tensor(noise[:, :2]))
    np.testing.assert_allclose(record["actions"][0], expected, atol=NEAR)
    np.testing.assert_allclose(given, policy.action_space.to_env(expected.numpy()), atol=NEAR)
    assert all(ASYMMETRIC.contains(action) for action in given)


def test_greedy_actions_are_the_squashed_and_rescaled_means():
    policy, observations = policy_for(), samples(NESTED, 20)
    means = torch_outputs(policy, observations)[:, 0, :2].tanh().numpy()
    np.testing.assert_allclose(loaded(policy).actions(observations, None), means * 2 + [-1, 12], atol=NEAR)


def test_discrete_actions_are_drawn_with_the_actors_probabilities():
    policy, observations = policy_for(Discrete(3, start=4)), samples(NESTED, 1)
    probs = torch_outputs(policy, observations)[0, 0].softmax(-1).numpy()
    many = map_tree(lambda leaf: np.repeat(leaf, 20_000, 0), observations)
    drawn = loaded(policy).actions(many, np.random.default_rng(0))
    np.testing.assert_allclose(np.bincount(drawn - 4, minlength=3) / 20_000, probs, atol=0.015)
    assert loaded(policy).actions(observations, None)[0] == probs.argmax() + 4


@pytest.mark.parametrize("space", [Discrete(3), ASYMMETRIC], ids=["discrete", "box"])
def test_actions_are_uniform_for_the_first_uniform_steps(space):
    policy = policy_for(space, uniform_steps=100)
    behavior = loaded(policy, env_steps=99)
    noise = behavior.noise_source.noise(np.random.default_rng(0), 100, 100)
    record, observations = behavior.collector.allocate(100, 100), samples(NESTED, 100)
    for t in range(100):
        behavior.act(observations, noise[t], record, t, np.zeros(100, bool))
    if space == ASYMMETRIC:
        quartiles = np.quantile(record["actions"], [0, 0.25, 0.5, 0.75, 1])
        np.testing.assert_allclose(quartiles, [-1, -0.5, 0, 0.5, 1], atol=0.03)
    else:
        np.testing.assert_allclose(np.bincount(record["actions"].ravel()) / 10_000, np.full(3, 1 / 3), atol=0.02)


def test_entropies_and_values_averaged_over_discrete_actions_equal_explicit_sums():
    rng = np.random.default_rng(0)
    logits, outputs = rng.normal(size=(4, 1, 3)), rng.normal(size=(2, 4, 1, 3))
    found = averaged(torch.as_tensor(logits), torch.as_tensor(outputs.min(0)))
    for row in range(4):
        probs = np.exp(logits[row, 0]) / np.exp(logits[row, 0]).sum()
        entropy, value = 0.0, 0.0
        for action in range(3):
            entropy -= probs[action] * math.log(probs[action])
            value += probs[action] * min(outputs[0, row, 0, action], outputs[1, row, 0, action])
        assert -found.log_probs[row, 0].item() == pytest.approx(entropy)
        assert found.values[row, 0].item() == pytest.approx(value)


def test_default_target_entropies_depend_on_the_action_space():
    assert policy_for().default_target_entropy == -2.0
    assert policy_for(Discrete(4)).default_target_entropy == pytest.approx(0.98 * math.log(4))


def test_the_temperature_starts_at_initial_alpha():
    assert policy_for().module.log_alpha.exp().item() == pytest.approx(0.5)


@pytest.mark.parametrize("space", [MultiBinary(2), Box(-np.inf, np.inf, (2,)), Box(0, 9, (2,), np.int32)])
def test_unsupported_action_spaces_are_refused(space, wording):
    with wording.raised(UsageError):
        policy_for(space)
