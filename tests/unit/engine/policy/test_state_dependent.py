import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Discrete

from rlrun.algorithms.actor_q.sac import SACConfig
from rlrun.algorithms.actor_q.soft_policy import SoftPolicy
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.messages.errors import UsageError
from rlrun.engine.nn.model_config import ModelConfig, SoftModelConfig
from rlrun.engine.policy.action_spaces.squashed_box import SquashedGaussian
from rlrun.engine.policy.actor_critic import ActorCriticPolicy
from tests.policies import loaded, plain_policy, policy_from
from tests.rounding import rounding_error

SPACE = Box(-1, 1, (5,))
ACTIONS = Box(-2, 2, (2,))
IMAGE = Box(0, 255, (36, 36, 3), np.uint8)
NEAR = rounding_error(5 + 12 + 8 + 8)  # inputs of all layers, and the features that the noise matrix multiplies


def actor_critic(observation_space=SPACE, action_space=ACTIONS, **model):
    settings = ModelConfig(hiddens=(12, 8), use_sde=True, log_std_init=-1.0, **model)
    return plain_policy(ActorCriticPolicy, observation_space, action_space, settings, seed=5)


def soft(observation_space=SPACE, action_space=ACTIONS, uniform_steps=0, **model):
    settings = SoftModelConfig(hiddens=(12, 8), use_sde=True, log_std_init=-1.0, **model)
    return policy_from(
        SoftPolicy,
        SACConfig,
        observation_space,
        action_space,
        settings,
        seed=5,
        learning_starts=uniform_steps,
        initial_alpha=1.0,
    )


def observations_of(rows, columns, seed=0):
    return np.random.default_rng(seed).normal(size=(rows, columns, 5)).astype(np.float32)


def collected(behavior, observations, seed=1):
    """The fragment that a worker records while it acts on observations [T + 1, B, 5]."""
    length, columns = len(observations) - 1, observations.shape[1]
    noise, record = (
        behavior.noise_source.noise(np.random.default_rng(seed), length, columns),
        behavior.collector.allocate(length, columns),
    )
    for t in range(length):
        behavior.act(observations[t], noise[t], record, t, np.zeros(columns, bool))
    return SampleBatch(record, obs=observations)


def outputs_of(policy, observations):
    """The network's outputs for observations [N, 5], [N, K]."""
    heads, _ = policy.module({"obs": observations[:, None]})
    return heads["outputs"][:, 0]


def randomized(policy, seed=0):
    with torch.no_grad():
        for parameter in policy.module.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=torch.Generator().manual_seed(seed)) / 2)
    return policy


@pytest.mark.parametrize("shared", [False, True])
def test_log_probabilities_recorded_while_acting_equal_the_learners(shared):
    policy = randomized(actor_critic(shared_value=shared, sde_sample_freq=3))
    behavior = loaded(policy)
    batch = collected(behavior, observations_of(11, 4))
    behavior.collector.postprocess(batch)
    rows = SampleBatch(obs=torch.as_tensor(batch["obs"][:-1]), valid=torch.ones(10, 4))
    outputs = policy.outputs(dict(policy.module.named_parameters()), rows)
    learned = outputs.distribution.log_prob(torch.as_tensor(batch["actions"])).detach()
    np.testing.assert_allclose(batch["logp"], learned, atol=NEAR)
    np.testing.assert_allclose(batch["values"][:-1], outputs.values.detach(), atol=NEAR)


def test_standard_deviations_follow_from_the_features_and_those_of_the_noise_matrix():
    policy = randomized(actor_critic())
    observations = torch.as_tensor(observations_of(1, 6)[0])
    outputs = outputs_of(policy, observations)
    features = policy.module.policy_trunk(observations).detach().numpy()
    stds = policy.module.std.log_stds.detach().exp().numpy()
    expected = np.sqrt([[sum((z[f] * stds[f, a]) ** 2 for f in range(8)) for a in range(2)] for z in features])
    np.testing.assert_allclose(outputs[:, 2:].detach().exp(), expected, rtol=rounding_error(8))


def test_features_get_no_gradient_from_the_standard_deviations():
    policy = randomized(actor_critic())
    outputs = outputs_of(policy, torch.as_tensor(observations_of(1, 6)[0]))
    outputs[:, 2:].sum().backward()
    assert policy.module.std.log_stds.grad.abs().min() > 0
    assert all(parameter.grad.abs().max() == 0 for parameter in policy.module.policy_head.parameters())
    assert all(parameter.grad.abs().max() == 0 for parameter in policy.module.policy_trunk.parameters())


def test_noise_is_a_fixed_function_of_the_observation_until_it_is_resampled():
    behavior = loaded(actor_critic(sde_sample_freq=3))
    same = np.repeat(observations_of(1, 2), 8, 0)
    actions = collected(behavior, same)["actions"]
    np.testing.assert_array_equal(actions[[0, 0, 3, 3, 6]], actions[[1, 2, 4, 5, 6]])
    assert (actions[[0, 3]] != actions[[3, 6]]).all()
    assert (actions[:, 0] != actions[:, 1]).all()


def test_without_a_sample_frequency_noise_is_a_fixed_function_for_a_whole_fragment():
    actions = collected(loaded(soft()), np.repeat(observations_of(1, 2), 9, 0))["actions"]
    np.testing.assert_array_equal(actions, np.broadcast_to(actions[:1], actions.shape))


def test_over_many_noise_matrices_actions_have_the_means_and_deviations_of_the_outputs():
    policy = randomized(actor_critic())
    behavior = loaded(policy)
    batch = collected(behavior, np.repeat(np.repeat(observations_of(1, 1), 2, 0), 20_000, 1))
    means, log_stds = np.split(batch["outputs"][0, 0], 2)
    scaled = (batch["actions"][0] - means) / np.exp(log_stds)
    np.testing.assert_allclose(scaled.mean(0), 0, atol=0.02)
    np.testing.assert_allclose(scaled.std(0), 1, rtol=0.02)


def test_a_soft_actors_outputs_equal_the_learners_and_its_actions_stay_within_the_bounds():
    policy = randomized(soft(sde_sample_freq=4))
    behavior, observations = loaded(policy), observations_of(9, 3)
    networks = policy.outputs(dict(policy.module.named_parameters()), SampleBatch())
    with torch.no_grad():
        outputs = networks.networks.actor_outputs(torch.as_tensor(observations))
    np.testing.assert_allclose(behavior.outputs(observations[2]), outputs[2], atol=NEAR)
    actions = collected(behavior, observations)["actions"]
    assert np.abs(actions).max() <= 1
    # The learner draws actions from the same distribution, with its own noise.
    drawn, _ = SquashedGaussian(outputs[0]).sample_and_log_prob(torch.randn(3, 2))
    assert drawn.shape == actions[0].shape


def test_a_soft_actor_starts_with_uniformly_distributed_actions():
    actions = collected(loaded(soft(uniform_steps=10)), observations_of(1001, 10))["actions"]
    np.testing.assert_allclose(np.quantile(actions, [0, 0.25, 0.5, 0.75, 1]), [-1, -0.5, 0, 0.5, 1], atol=0.03)


def test_by_default_sac_starts_with_a_small_log_std():
    assert SACConfig(model={"use_sde": True}).model.log_std_init == -3.0
    assert ModelConfig(use_sde=True).log_std_init == 0.0


@pytest.mark.parametrize("family", [actor_critic, soft])
def test_state_dependent_noise_is_refused_for_discrete_actions_and_images(family):
    with pytest.raises(UsageError, match=r"model\.use_sde.*continuous actions"):
        family(action_space=Discrete(3))
    with pytest.raises(UsageError, match=r"model\.use_sde.*images"):
        family(observation_space=IMAGE)
