"""Q policies: both sides of them, for every kind of head."""

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, Tuple
from torch import nn

from rlrun.algorithms.dqn.policy import NOISE, QPolicy, q_spec
from rlrun.algorithms.dqn.return_model import ReturnModel
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.data.tree import map_tree
from rlrun.engine.messages.errors import UsageError
from rlrun.engine.nn.model_config import ModelConfig
from rlrun.engine.nn.network_module import NetworkModule, dueling_sum
from rlrun.engine.nn.noisy_net import NoisyNet
from rlrun.engine.policy.exploration.epsilon_greedy import EpsilonGreedy
from rlrun.engine.policy.exploration.parameter_noise import (
    ADAPTATION,
    FIRST_STD,
    AdaptiveNoise,
    factors,
    standard_normal,
)
from rlrun.engine.policy.weights import Weights
from tests.policies import loaded, plain_policy, samples
from tests.rounding import rounding_error

BOX = Box(-1, 1, (4,))
NESTED = Dict({"a": Box(-1, 1, (2, 3)), "b": Tuple([Discrete(4, start=2), MultiBinary(2)])})
IMAGE = Box(0, 255, (36, 36, 3), np.uint8)
ACTIONS = Discrete(3, start=5)
HEADS = {
    "means": {},
    "c51": {"returns": ReturnModel("c51", 11, -3.0, 7.0)},
    "quantile": {"returns": ReturnModel("quantile", 8)},
    "iqn": {"returns": ReturnModel("iqn", 8, acting_quantiles=5, num_cosines=7)},
    "dueling": {"dueling": True},
    "dueling c51": {"dueling": True, "returns": ReturnModel("c51", 11, -3.0, 7.0)},
    "noisy": {"noisy_sigma": 0.5},
    "noisy dueling c51": {"noisy_sigma": 0.5, "dueling": True, "returns": ReturnModel("c51", 11, -3.0, 7.0)},
}
HEAD_KINDS = pytest.mark.parametrize("head", HEADS.values(), ids=HEADS)
NEAR = rounding_error(12 + 32 + 16 + 11)  # inputs of all layers, and the atoms of a distribution
NEAR_IMAGES = rounding_error(192 + 512 + 576 + 64 + 512)  # inputs of three convolutions and of the layer after them


class OwnNet(nn.Module):
    """A network of a user's own."""

    def __init__(self, observation_space, num_outputs, model):
        super().__init__()
        self.inner = nn.Linear(observation_space.shape[0], 16)
        self.last = nn.Linear(16, num_outputs, bias=False)

    def forward(self, observations):
        """Returns outputs [N, num_outputs]."""
        return self.last(torch.relu(self.inner(observations)))


class ActorCriticOfOnesOwn(OwnNet):
    """A network that fits another family."""

    def forward(self, observations):
        """Returns outputs and values."""
        return super().forward(observations), observations[:, 0]


def policy_for(space=BOX, *, hiddens=(32, 16), normalize=False, module=None, exploration="epsilon_greedy", **head):
    model = ModelConfig(hiddens=hiddens, activation="relu", orthogonal_init=False, module=module)
    return plain_policy(
        QPolicy, space, ACTIONS, model, normalize_observations=normalize, seed=5, exploration=exploration, **head
    )


def randomized(policy, seed=0):
    return np.random.default_rng(seed).normal(size=policy.parameters.size).astype(np.float32) / 3


def networks_of(policy, flat, noise=None):
    views = policy.parameters.views(torch.from_numpy(flat))
    batch = SampleBatch() if noise is None else SampleBatch({NOISE: torch.from_numpy(noise)})
    return policy.outputs(views, batch, views)


def values_of(policy, flat, observations, noise=None):
    rows = map_tree(lambda leaf: torch.as_tensor(leaf)[:, None], observations)
    return networks_of(policy, flat, noise).values(rows)[:, 0].detach().numpy()


@pytest.mark.parametrize("space", [BOX, NESTED], ids=["box", "nested"])
@HEAD_KINDS
def test_the_numpy_mirror_computes_the_same_outputs_as_the_torch_module(space, head):
    policy = policy_for(space, **head)
    flat, observations = randomized(policy), samples(space, 50)
    values = loaded(policy, flat).outputs(observations)
    assert values.shape == (50, 3)
    np.testing.assert_allclose(values, values_of(policy, flat, observations), atol=NEAR)


@pytest.mark.parametrize("head", [HEADS["means"], HEADS["noisy dueling c51"]], ids=["means", "noisy dueling c51"])
def test_image_policies_act_in_torch_and_match_the_outputs_of_their_module(head):
    policy = policy_for(IMAGE, hiddens=(16,), **head)
    flat, observations = randomized(policy) / 10, samples(IMAGE, 3)
    np.testing.assert_allclose(
        loaded(policy, flat).outputs(observations), values_of(policy, flat, observations), atol=NEAR_IMAGES
    )


def test_a_custom_network_can_act_and_can_use_noisy_layers():
    for head in ({}, {"noisy_sigma": 0.5}, {"returns": ReturnModel("quantile", 8)}):
        policy = policy_for(module=f"{__name__}:OwnNet", **head)
        flat, observations = randomized(policy), samples(BOX, 5)
        np.testing.assert_allclose(
            loaded(policy, flat).outputs(observations),
            values_of(policy, flat, observations),
            atol=rounding_error(4 + 16),
        )


def test_a_custom_network_with_the_wrong_output_is_refused(wording):
    with wording.raised(UsageError):
        policy_for(module=f"{__name__}:ActorCriticOfOnesOwn")


def test_continuous_actions_are_refused(wording):
    with wording.raised(UsageError):
        plain_policy(QPolicy, BOX, Box(-1, 1, (2,)), ModelConfig(), seed=0)


def test_advantages_of_a_dueling_network_average_to_zero():
    values, advantages = torch.randn(4, 1, 5), torch.randn(4, 3, 5)
    torch.testing.assert_close(dueling_sum(values, advantages).mean(1), values[:, 0])
    net = NetworkModule(q_spec(policy_for().leaves, ModelConfig(hiddens=(8, 6)), 3, 1, dueling=True))
    observations = torch.randn(4, 4)
    features = net.trunk(observations)
    assert features.shape == (4, 8)
    assert net.stream[0].out_features == net.value_stream[0].out_features == 6
    heads, _ = net({"obs": observations[:, None]})
    torch.testing.assert_close(heads["outputs"][:, 0].mean(1, keepdim=True), net.value_stream(features))


def test_with_zero_noise_a_noisy_network_equals_the_plain_one():
    plain, noisy = policy_for(), policy_for(noisy_sigma=0.5)
    flat, observations = noisy.parameters.gather(noisy.module).numpy(), samples(BOX, 6)
    np.testing.assert_array_equal(flat[: plain.parameters.size], plain.parameters.gather(plain.module).numpy())
    nothing = np.zeros((1, 3, noisy.module.num_noise), np.float32)
    expected = values_of(plain, flat[: plain.parameters.size], observations)
    np.testing.assert_array_equal(values_of(noisy, flat, observations, nothing), expected)


def test_noise_parameters_start_at_sigma_over_the_square_root_of_their_layers_inputs():
    module = NoisyNet(nn.Sequential(nn.Linear(4, 9), nn.ReLU(), nn.Linear(9, 2, bias=False)), 0.5)
    assert [tuple(sigmas.shape) for sigmas in module.sigmas] == [(9, 4), (9,), (2, 9)]
    assert [set(sigmas.detach().flatten().tolist()) for sigmas in module.sigmas[:2]] == [{0.25}, {0.25}]
    torch.testing.assert_close(module.sigmas[2], torch.full((2, 9), 0.5 / 3))
    assert module.num_noise == 4 + 9 + 9 + 2


def test_noise_of_a_layer_is_the_product_of_its_input_and_output_noise():
    module = NoisyNet(nn.Linear(2, 3), 0.5)
    noise = torch.tensor(factors(np.array([4.0, -9.0, 1.0, 0.0, -1.0], np.float32)))
    torch.testing.assert_close(noise, torch.tensor([2.0, -3.0, 1.0, 0.0, -1.0]))
    views = dict(module.named_parameters())
    drawn, sigma = module.drawn(views, noise), 0.5 / 2**0.5
    expected = sigma * torch.tensor([[2.0, -3.0], [0.0, 0.0], [-2.0, 3.0]])
    torch.testing.assert_close(drawn["net.weight"] - views["net.weight"], expected)
    torch.testing.assert_close(drawn["net.bias"] - views["net.bias"], sigma * torch.tensor([1.0, 0.0, -1.0]))


def acted(behavior, observations, noise, *, t=0, starts=None):
    record = behavior.collector.allocate(t + 1, len(observations))
    starts = np.zeros(len(observations), bool) if starts is None else starts
    actions = behavior.act(observations, noise[t], record, t, starts)
    np.testing.assert_array_equal(record["actions"][t] + 5, actions)  # the policy's own actions begin at 0
    return record["actions"][t]


def test_workers_use_one_noise_draw_per_fragment_and_evaluation_uses_none():
    policy = policy_for(noisy_sigma=4.0)
    flat, observations = randomized(policy), samples(BOX, 40)
    behavior = loaded(policy, flat)
    noise = behavior.noise_source.noise(np.random.default_rng(3), 2, 40)
    drawn = factors(standard_normal(float(noise[0, 0, 2]), policy.module.num_noise))
    with_noise = values_of(policy, flat, observations, np.tile(drawn, (1, 3, 1)))
    without = values_of(policy, flat, observations)
    assert (with_noise.argmax(-1) != without.argmax(-1)).any()
    np.testing.assert_array_equal(acted(behavior, observations, noise), with_noise.argmax(-1))
    np.testing.assert_array_equal(acted(behavior, observations, noise, t=1), with_noise.argmax(-1))
    np.testing.assert_array_equal(behavior.actions(observations, None) - 5, without.argmax(-1))


def test_the_learner_draws_separate_noise_for_three_passes_of_a_noisy_network():
    policy = policy_for(noisy_sigma=0.5)
    drawn = policy.draws(np.random.default_rng(0), 32, 1)[NOISE]
    assert drawn.shape == (1, 3, policy.module.num_noise)
    assert len({float(row[0]) for row in drawn[0]}) == 3
    assert policy_for().draws(np.random.default_rng(0), 32, 1) == {}
    flat, observations = randomized(policy), torch.zeros(2, 1, 4)
    networks = networks_of(policy, flat, drawn)
    assert not torch.equal(networks.values(observations), networks.target_values(observations))


def test_the_best_action_is_taken_as_often_as_epsilon_implies():
    policy = policy_for()
    flat, observations = randomized(policy), samples(BOX, 1).repeat(4000, 0)
    (best,) = set(values_of(policy, flat, observations).argmax(-1))
    behavior = loaded(policy, flat, epsilon=((0, 1.0), (100, 0.3)), env_steps=100)
    actions = acted(behavior, observations, behavior.noise_source.noise(np.random.default_rng(0), 1, 4000))
    assert np.mean(actions == best) == pytest.approx(0.7 + 0.3 / 3, abs=0.02)
    assert (behavior.actions(observations, None) == best + 5).all()
    explored = behavior.actions(observations, np.random.default_rng(0)) - 5
    assert np.mean(explored == best) == pytest.approx(0.7 + 0.3 / 3, abs=0.02)


@pytest.mark.parametrize(("env_steps", "epsilon"), [(0, 1.0), (50, 0.65), (100, 0.3), (10_000, 0.3)])
def test_epsilon_is_scheduled_by_the_env_steps_sent_with_the_weights(env_steps, epsilon):
    policy = policy_for()
    behavior = loaded(policy, randomized(policy), epsilon=((0, 1.0), (100, 0.3)), env_steps=env_steps)
    assert behavior.exploration.epsilon == pytest.approx(epsilon)


def test_soft_q_draws_actions_by_the_softmax_of_values_over_temperature():
    policy = policy_for(exploration="soft_q")
    flat, observations = randomized(policy), samples(BOX, 1).repeat(20_000, 0)
    values = values_of(policy, flat, observations[:1])[0] / 0.5
    behavior = loaded(policy, flat, temperature=0.5)
    noise = behavior.noise_source.noise(np.random.default_rng(1), 1, 20_000)
    shares = np.bincount(acted(behavior, observations, noise), minlength=3) / 20_000
    np.testing.assert_allclose(shares, np.exp(values) / np.exp(values).sum(), atol=0.012)


def test_parameter_noise_is_redrawn_only_when_an_episode_starts_in_the_first_slot():
    policy = policy_for(exploration="parameter_noise")
    flat, observations = randomized(policy), samples(BOX, 30)
    behavior = loaded(policy, flat, epsilon=0.2)
    noise = behavior.noise_source.noise(np.random.default_rng(3), 3, 30)
    first, later = np.zeros(30, bool), np.zeros(30, bool)
    first[0], later[1:] = True, True

    def varied(draw):
        return flat + np.float32(FIRST_STD) * standard_normal(draw, len(flat))

    for t, starts, draw in ((0, first, noise[0, 0, 2]), (1, later, noise[0, 0, 2]), (2, first, noise[2, 0, 2])):
        expected = values_of(policy, varied(float(draw)), observations).argmax(-1)
        np.testing.assert_array_equal(acted(behavior, observations, noise, t=t, starts=starts), expected)
    again = loaded(policy, flat, epsilon=0.2)
    again.load_state(behavior.state())
    expected = values_of(policy, varied(float(noise[2, 0, 2])), observations).argmax(-1)
    np.testing.assert_array_equal(acted(again, observations, noise), expected)


def test_parameter_noise_adapts_to_change_actions_as_often_as_epsilon_would():
    noise = AdaptiveNoise(num_actions=4)
    noise.load(Weights(0, np.zeros(3, np.float32), schedules={"epsilon": 0.2}))
    assert noise.bound == pytest.approx(-np.log(0.8 + 0.2 / 4))
    values = np.array([[0.0, 0.0, 0.0, 0.0]], np.float32)
    noise.adapt(values, values)
    assert noise.std == pytest.approx(FIRST_STD * ADAPTATION)
    far = np.array([[9.0, 0.0, 0.0, 0.0]], np.float32)
    noise.adapt(values, far)
    noise.adapt(values, far)
    assert noise.std == pytest.approx(FIRST_STD / ADAPTATION)


def test_q_values_are_recorded_for_every_observation_including_the_closing_one():
    policy = policy_for(records_values=True)
    flat, observations = randomized(policy), samples(BOX, 6).reshape(3, 2, 4)
    behavior = loaded(policy, flat, epsilon=1.0)
    noise, record = behavior.noise_source.noise(np.random.default_rng(0), 2, 2), behavior.collector.allocate(2, 2)
    for t in range(2):
        behavior.act(observations[t], noise[t], record, t, np.zeros(2, bool))
    record["obs"] = observations
    behavior.collector.postprocess(record)
    expected = values_of(policy, flat, observations.reshape(6, 4)).reshape(3, 2, 3)
    np.testing.assert_allclose(record["q_values"], expected, atol=NEAR)


class Always(EpsilonGreedy):
    """Takes one action whatever the values; it counts the steps."""

    def __init__(self, actions, action=2):
        super().__init__(actions.num_outputs)
        self.action, self.steps = action, 0

    def explore(self, run, noise, episode_starts, acts, mask):
        self.steps += 1
        return np.full(len(noise), self.action)


def test_a_custom_exploration_replaces_the_built_in_one_with_one_instance_per_behavior():
    policy = policy_for(exploration=f"{__name__}:Always")
    behaviors = [loaded(policy, randomized(policy)) for _ in range(2)]
    record = behaviors[0].collector.allocate(1, 4)
    noise = behaviors[0].noise_source.noise(np.random.default_rng(0), 1, 4)
    taken = behaviors[0].act(samples(BOX, 4), noise[0], record, 0, np.zeros(4, bool))
    assert taken.tolist() == [2 + ACTIONS.start] * 4
    assert [behavior.exploration.steps for behavior in behaviors] == [1, 0]
    assert behaviors[0].exploration.num_actions == ACTIONS.n
