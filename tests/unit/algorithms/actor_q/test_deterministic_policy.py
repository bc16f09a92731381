import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Dict, Discrete, MultiDiscrete

from rlrun.algorithms.actor_q.ddpg import TD3Config
from rlrun.algorithms.actor_q.deterministic_policy import DeterministicPolicy
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.data.tree import map_tree
from rlrun.engine.messages.errors import UsageError
from rlrun.engine.nn.model_config import ActorQModelConfig
from tests.policies import loaded, policy_from, samples
from tests.rounding import rounding_error

NESTED = Dict({"a": Box(-1, 1, (2, 3)), "b": MultiDiscrete([2, 3])})
IMAGES = Dict({"image": Box(0, 255, (36, 36, 3), np.uint8), "speed": Box(-1, 1, (2,))})
ASYMMETRIC = Box(np.array([[-3.0], [10.0]], np.float32), np.array([[1.0], [14.0]], np.float32))
NEAR = rounding_error(11 + 16 + 8)  # inputs of all layers: the nested observation, both hidden ones


def policy_for(observation_space=NESTED, action_space=ASYMMETRIC, uniform_steps=0, noise="gaussian", **changes):
    model = {"hiddens": (16, 8), "activation": "relu", **changes}
    return policy_from(
        DeterministicPolicy,
        TD3Config,
        observation_space,
        action_space,
        ActorQModelConfig(**model),
        seed=5,
        learning_starts=uniform_steps,
        exploration=noise,
        ou_theta=0.15,
    )


@pytest.mark.parametrize("activation", ["tanh", "relu", "elu", "silu"])
def test_the_numpy_actor_computes_the_same_outputs_as_the_torch_actor(activation):
    policy = policy_for(activation=activation)
    observations = samples(NESTED, 50)
    networks = policy.outputs(dict(policy.module.named_parameters()), SampleBatch())
    rows = map_tree(lambda leaf: torch.as_tensor(leaf)[:, None], observations)
    expected = policy.action_space.to_env(networks.actions(rows)[:, 0].detach().numpy())
    np.testing.assert_allclose(loaded(policy).actions(observations, None), expected, atol=NEAR)


def test_image_actors_act_in_torch_and_match_the_outputs_of_their_module():
    policy = policy_for(IMAGES, hiddens=(8,))
    observations = samples(IMAGES, 4)
    networks = policy.outputs(dict(policy.module.named_parameters()), SampleBatch())
    rows = map_tree(lambda leaf: torch.as_tensor(leaf)[:, None], observations)
    with torch.no_grad():
        expected = networks.actions(rows)[:, 0].numpy()
        assert networks.values(rows, torch.zeros(4, 1, 2)).shape == (2, 4, 1)
    np.testing.assert_allclose(
        np.tanh(loaded(policy).outputs(observations)),
        expected,
        atol=rounding_error(192 + 512 + 576 + 64 + 514 + 8, size=float(np.abs(expected).max())),
    )


def test_actions_are_rescaled_to_asymmetric_bounds_per_dimension():
    behavior = loaded(policy_for())
    own = np.array([[-1, -1], [0, 0], [1, 1], [0.5, -0.5]], np.float32)
    expected = np.array([[[-3], [10]], [[-1], [12]], [[1], [14]], [[0], [11]]], np.float32)
    np.testing.assert_allclose(behavior.action_space.to_env(own), expected, atol=rounding_error(2, size=14.0))
    assert behavior.action_space.to_env(own).dtype == np.float32


@pytest.mark.parametrize(
    ("space", "message"),
    [
        (Box(-np.inf, np.inf, (3,)), "finite bounds .* but 3 of 3 entries of .* are unbounded"),
        (
            Box(np.array([-1.0, -np.inf], np.float32), np.array([1.0, 1.0], np.float32)),
            "but 1 of 2 entries of .* are unbounded",
        ),
        (Box(0, 5, (2,), np.int64), "a Box action space of floats"),
        (Discrete(3), "a Box action space of floats"),
    ],
)
def test_actions_without_finite_bounds_are_refused(space, message):
    with pytest.raises(UsageError, match=message):
        policy_for(action_space=space)


def act_all(behavior, noise, starts):
    record, observations = behavior.collector.allocate(*noise.shape[:2]), samples(NESTED, noise.shape[1])
    for t, row in enumerate(noise):
        behavior.act(observations, row, record, t, starts[t])
    return record["actions"]


def test_gaussian_noise_has_the_scheduled_deviation_and_stays_within_the_bounds():
    policy = policy_for()
    noise = policy.behavior().noise_source.noise(np.random.default_rng(0), 400, 50)
    starts = np.zeros((400, 50), bool)
    quiet = act_all(loaded(policy), noise, starts)
    narrow = act_all(loaded(policy, exploration_noise=((0, 0.0), (100, 0.2)), env_steps=50), noise, starts)
    assert np.std(narrow - quiet) == pytest.approx(0.1, rel=0.02)
    wide = act_all(loaded(policy, exploration_noise=3.0), noise, starts)
    assert (wide.min(), wide.max()) == (-1.0, 1.0)


def test_actions_are_uniform_between_the_bounds_for_the_first_uniform_steps():
    policy = policy_for(uniform_steps=100)
    noise = policy.behavior().noise_source.noise(np.random.default_rng(0), 1000, 10)
    starts = np.zeros((1000, 10), bool)
    before = act_all(loaded(policy, env_steps=99), noise, starts)
    np.testing.assert_allclose(np.quantile(before, [0.0, 0.25, 0.5, 0.75, 1.0]), [-1, -0.5, 0, 0.5, 1], atol=0.03)
    after = act_all(loaded(policy, env_steps=100), noise, starts)
    np.testing.assert_array_equal(after, act_all(loaded(policy_for()), noise, starts))


def correlated(behavior, noise, starts):
    positions = []
    record, observations = behavior.collector.allocate(*noise.shape[:2]), samples(NESTED, noise.shape[1])
    for t, row in enumerate(noise):
        behavior.act(observations, row, record, t, starts[t])
        positions.append(behavior.state()["action_noise"])
    return np.array(positions)


def test_correlated_noise_has_its_stationary_variance_and_correlation():
    policy = policy_for(noise="ornstein_uhlenbeck")
    noise = policy.behavior().noise_source.noise(np.random.default_rng(1), 400, 200)
    x = correlated(loaded(policy, exploration_noise=0.2), noise, np.zeros((400, 200), bool))[60:]
    assert x.var() == pytest.approx(0.2**2 / (0.15 * (2 - 0.15)), rel=0.03)
    assert np.mean(x[1:] * x[:-1]) / x.var() == pytest.approx(0.85, abs=0.01)


def test_correlated_noise_restarts_at_zero_in_columns_where_an_episode_begins():
    policy = policy_for(noise="ornstein_uhlenbeck")
    noise = policy.behavior().noise_source.noise(np.random.default_rng(1), 5, 2)
    starts = np.zeros((5, 2), bool)
    starts[3, 1] = True
    x = correlated(loaded(policy, exploration_noise=0.2), noise, starts)
    np.testing.assert_allclose(x[3, 1], 0.2 * noise[3, 1, :2], atol=rounding_error(2))
    np.testing.assert_allclose(x[3, 0], 0.85 * x[2, 0] + 0.2 * noise[3, 0, :2], atol=rounding_error(2))


def test_correlated_noise_continues_from_a_saved_state():
    policy = policy_for(noise="ornstein_uhlenbeck")
    noise = policy.behavior().noise_source.noise(np.random.default_rng(1), 10, 3)
    starts = np.zeros((10, 3), bool)
    first, second = loaded(policy, exploration_noise=0.3), loaded(policy, exploration_noise=0.3)
    correlated(first, noise[:5], starts[:5])
    second.load_state(first.state())
    np.testing.assert_array_equal(correlated(first, noise[5:], starts[5:]), correlated(second, noise[5:], starts[5:]))


def test_orthogonally_initialized_networks_start_with_outputs_near_zero():
    policy = policy_for(orthogonal_init=True)
    assert np.abs(loaded(policy).outputs(samples(NESTED, 20))).max() < 0.1


def test_actions_drawn_with_a_generator_have_normal_noise_and_others_have_none():
    policy = policy_for(noise="ornstein_uhlenbeck")
    behavior, observations = loaded(policy, exploration_noise=0.1), samples(NESTED, 3)
    drawn = behavior.actions(observations, np.random.default_rng(4))
    normal = np.random.default_rng(4)
    shifts = normal.standard_normal((3, 2), np.float32) * 0.1
    quiet = np.tanh(behavior.outputs(observations))
    expected = behavior.action_space.to_env(quiet + shifts)
    np.testing.assert_allclose(drawn, expected, atol=rounding_error(2, size=14.0))
    np.testing.assert_array_equal(behavior.actions(observations, None), behavior.action_space.to_env(quiet))
