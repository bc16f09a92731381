import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Discrete, MultiBinary, MultiDiscrete, Text

from rlrun.algorithms.evolution.box_mean import BoxMeanActions
from rlrun.engine.messages.errors import UsageError
from rlrun.engine.policy.action_spaces.box import BoxScale, DeterministicBoxActions, bounded_box
from rlrun.engine.policy.action_spaces.make import make_action_space
from rlrun.engine.policy.action_spaces.squashed_box import SquashedBoxActions, SquashedGaussian
from rlrun.engine.policy.log_probs_in_env import log_probs_in_env
from tests.rounding import rounding_error

SPACES = [
    Discrete(5, start=3),
    MultiDiscrete([2, 4, 3], start=[1, 0, -1]),
    MultiBinary((2, 2)),
    Box(np.array([-2.0, 0.0, -np.inf], np.float32), np.array([2.0, 10.0, np.inf], np.float32)),
]
N = 200_000
OF_SEVERAL_BOUNDS = Box(np.array([-2.0, 0.0, -1.0, 3.0], np.float32), np.array([2.0, 10.0, np.inf, 3.0], np.float32))


def outputs_for(model, seed=0, rows=64):
    return np.random.default_rng(seed).normal(0, 0.7, (rows, model.num_outputs)).astype(np.float32)


@pytest.mark.parametrize("space", SPACES, ids=str)
def test_log_probs_agree_between_numpy_and_torch(space):
    model = make_action_space(space)
    outputs = outputs_for(model)
    actions = model.sample(outputs, model.noise(np.random.default_rng(1), (64,)))
    in_torch = model.distribution(torch.from_numpy(outputs)).log_prob(torch.from_numpy(actions))
    np.testing.assert_allclose(
        model.log_prob(outputs, actions),
        in_torch,
        rtol=rounding_error(model.num_outputs),
        atol=rounding_error(model.num_outputs),
    )


@pytest.mark.parametrize("space", SPACES, ids=str)
def test_sampled_actions_belong_to_the_envs_space(space):
    model = make_action_space(space)
    outputs = 5 * outputs_for(model)
    for actions in (model.sample(outputs, model.noise(np.random.default_rng(1), (64,))), model.mode(outputs)):
        assert actions.shape == (64, *model.action_shape)
        assert actions.dtype == model.action_dtype
        assert all(space.contains(action) for action in model.to_env(actions))


@pytest.mark.parametrize("space", SPACES, ids=str)
def test_entropy_is_the_mean_negative_log_prob(space):
    model = make_action_space(space)
    outputs = np.repeat(outputs_for(model, rows=1), N, 0)
    actions = model.sample(outputs, model.noise(np.random.default_rng(2), (N,)))
    surprise = -model.log_prob(outputs, actions)
    entropy = float(model.distribution(torch.from_numpy(outputs[:1])).entropy())
    assert surprise.mean() == pytest.approx(entropy, abs=5 * surprise.std() / np.sqrt(N))


def test_in_env_units_a_standard_deviation_is_multiplied_by_half_the_range():
    model = make_action_space(Box(-8, 8, (1,)))
    outputs = np.array([[0.0, np.log(1 / 8)]], np.float32).repeat(N, 0)
    drawn = model.to_env(model.sample(outputs, model.noise(np.random.default_rng(4), (N,))))
    assert drawn.std() == pytest.approx(1.0, abs=0.01)


def test_discrete_actions_are_drawn_with_their_probabilities():
    model = make_action_space(Discrete(3))
    outputs = np.log(np.array([[0.2, 0.5, 0.3]], np.float32)).repeat(N, 0)
    drawn = model.sample(outputs, model.noise(np.random.default_rng(3), (N,)))
    np.testing.assert_allclose(np.bincount(drawn) / N, [0.2, 0.5, 0.3], atol=0.005)


def test_binary_actions_are_drawn_with_their_probabilities():
    model = make_action_space(MultiBinary(2))
    outputs = np.log(np.array([[0.2 / 0.8, 0.9 / 0.1]], np.float32)).repeat(N, 0)
    drawn = model.sample(outputs, model.noise(np.random.default_rng(3), (N,)))
    np.testing.assert_allclose(drawn.mean(0), [0.2, 0.9], atol=0.005)


def test_categorical_and_bernoulli_log_probs_equal_torchs():
    logits = torch.randn(10, 4, generator=torch.Generator().manual_seed(0))
    choices, bits = torch.arange(10) % 4, (torch.arange(40) % 3 == 0).reshape(10, 4)
    ours, theirs = make_action_space(Discrete(4)).distribution(logits), torch.distributions.Categorical(logits=logits)
    torch.testing.assert_close(ours.log_prob(choices), theirs.log_prob(choices))
    torch.testing.assert_close(ours.entropy(), theirs.entropy())
    ours = make_action_space(MultiBinary(4)).distribution(logits)
    theirs = torch.distributions.Bernoulli(logits=logits)
    torch.testing.assert_close(ours.log_prob(bits), theirs.log_prob(bits.float()).sum(-1))
    torch.testing.assert_close(ours.entropy(), theirs.entropy().sum(-1))


def test_gaussian_log_probs_equal_torchs():
    outputs = torch.randn(10, 6, generator=torch.Generator().manual_seed(0))
    actions = torch.randn(10, 3, generator=torch.Generator().manual_seed(1))
    ours = make_action_space(Box(-1, 1, (3,))).distribution(outputs)
    theirs = torch.distributions.Normal(outputs[:, :3], outputs[:, 3:].exp())
    torch.testing.assert_close(ours.log_prob(actions), theirs.log_prob(actions).sum(-1))
    torch.testing.assert_close(ours.entropy(), theirs.entropy().sum(-1))


def test_bounded_actions_are_scaled_and_clipped_while_unbounded_ones_pass_unchanged():
    model = make_action_space(SPACES[3])
    given = model.to_env(np.array([[0.5, 0.0, 7.5], [-3.0, 3.0, -99.0]], np.float32))
    np.testing.assert_allclose(given, [[1.0, 5.0, 7.5], [-2.0, 10.0, -99.0]])


def test_a_half_bounded_action_is_clipped_at_its_one_bound_without_scaling():
    model = make_action_space(Box(np.array([0.0], np.float32), np.array([np.inf], np.float32)))
    np.testing.assert_allclose(model.to_env(np.array([[-1.0], [4.0]], np.float32)), [[0.0], [4.0]])


def test_discrete_actions_have_the_dtype_of_their_space():
    space = Discrete(3, start=1, dtype=np.int32)
    model = make_action_space(space)
    assert all(space.contains(action) for action in model.to_env(np.arange(3)))


def test_actions_are_finite_even_with_the_widest_possible_bounds():
    farthest = np.finfo(np.float32).max
    model = make_action_space(Box(-farthest, farthest, (1,)))
    np.testing.assert_array_equal(
        model.to_env(np.array([[0.0], [1.0], [-1.0]], np.float32)).ravel(), [0, farthest, -farthest]
    )


@pytest.mark.parametrize(
    "space", [Text(5), Box(0, 255, (2,), np.uint8), gymnasium.spaces.Dict({"a": Text(5)})], ids=str
)
def test_unsupported_action_spaces_are_refused_with_a_list_of_supported_ones(space, wording):
    with wording.raised(UsageError, "MultiDiscrete", "MultiBinary"):
        make_action_space(space)


BOUNDED = Box(np.array([-3.0, 10.0], np.float32), np.array([1.0, 14.0], np.float32))
OF_BOUNDED = [SquashedBoxActions(bounded_box(BOUNDED, "it")), DeterministicBoxActions(bounded_box(BOUNDED, "it"))]


def test_smoothly_bounded_log_stds_follow_the_formula_of_flashsac() -> None:
    """-10 + 6 (1 + tanh x) for an output x, in float64; both libraries use this to sample and for probabilities."""
    model = SquashedBoxActions(bounded_box(BOUNDED, "it"), smooth_log_stds=True)
    outputs = np.array([[0.3, -0.2, -9.0, 0.4], [0.1, 0.5, 0.0, 8.0], [0.0, 0.0, 0.5, 0.6]], np.float32)
    noise = np.array([[0.5, -0.1], [1.0, 0.002], [-0.3, 0.1]], np.float32)
    stds = np.exp(-10 + 6 * (1 + np.tanh(outputs[:, 2:].astype(float))))
    drawn = outputs[:, :2] + stds * noise
    expected = (-0.5 * (noise**2 + np.log(2 * np.pi)) - np.log(stds) - 2 * np.log(1 / np.cosh(drawn))).sum(-1)
    actions, densities = model.distribution(torch.from_numpy(outputs)).sample_and_log_prob(torch.from_numpy(noise))
    np.testing.assert_allclose(model.sample(outputs, noise), np.tanh(drawn), rtol=1e-5)
    np.testing.assert_allclose(actions, np.tanh(drawn), rtol=1e-5)
    np.testing.assert_allclose(densities, expected, rtol=1e-5)
    np.testing.assert_allclose(model.log_prob(outputs, np.tanh(drawn).astype(np.float32))[1:], expected[1:], rtol=1e-3)


@pytest.mark.parametrize(
    ("space", "model"),
    [*((space, make_action_space(space)) for space in SPACES), *((BOUNDED, model) for model in OF_BOUNDED)],
    ids=lambda part: type(part).__name__,
)
def test_env_actions_are_converted_back_to_the_policys_actions(space, model):
    space.seed(0)
    given = np.stack([space.sample() for _ in range(50)])
    own = model.from_env(given)
    assert own.shape == (50, *model.action_shape)
    assert own.dtype == model.action_dtype
    np.testing.assert_allclose(model.to_env(own), given, atol=rounding_error(4, size=14.0))


def test_a_coordinate_with_equal_bounds_is_converted_to_0():
    model = make_action_space(Box(np.array([2.0, 0.0], np.float32), np.array([2.0, 4.0], np.float32)))
    np.testing.assert_array_equal(model.from_env(np.array([[2.0, 3.0]], np.float32)), [[0.0, 0.5]])


def test_squashed_log_probs_agree_between_numpy_torch_and_the_change_of_variables():
    model = OF_BOUNDED[0]
    outputs = outputs_for(model) - np.array([0, 0, 1, 1], np.float32)  # narrow enough to invert tanh in float32
    noise = model.noise(np.random.default_rng(1), (64,))
    actions = model.sample(outputs, noise)
    ours = SquashedGaussian(torch.from_numpy(outputs))
    drawn, densities = ours.sample_and_log_prob(torch.from_numpy(noise[:, :2]))
    np.testing.assert_allclose(actions, drawn, atol=rounding_error(4))
    steepest = 1 / (1 - np.square(actions).max())  # derivative of atanh, by which errors of actions grow
    np.testing.assert_allclose(model.log_prob(outputs, actions), densities, atol=rounding_error(4, size=steepest))
    torch.testing.assert_close(
        ours.log_prob(torch.from_numpy(actions)), densities, atol=rounding_error(4, size=steepest), rtol=0
    )


def test_an_action_at_its_bound_has_a_finite_log_prob():
    model = OF_BOUNDED[0]
    outputs, actions = np.zeros((1, 4), np.float32), np.array([[1.0, -1.0]], np.float32)
    found = model.log_prob(outputs, actions)
    assert np.isfinite(found).all()
    np.testing.assert_allclose(
        SquashedGaussian(torch.zeros(1, 4)).log_prob(torch.from_numpy(actions)), found, rtol=rounding_error(4)
    )


def test_the_divergence_of_squashed_gaussians_equals_that_of_the_unsquashed_ones():
    first, second = torch.randn(2, 5, 6, generator=torch.Generator().manual_seed(0)).mul(0.5)
    normal = [torch.distributions.Normal(part[:, :3], part[:, 3:].exp()) for part in (first, second)]
    expected = torch.distributions.kl_divergence(*normal).sum(-1)
    torch.testing.assert_close(SquashedGaussian(first).kl(SquashedGaussian(second)), expected)


def test_overshoot_is_the_mean_squared_distance_beyond_the_bounds_in_half_ranges():
    model = BoxMeanActions(BoxScale(OF_SEVERAL_BOUNDS))
    # The third number has one bound, so its distance is not scaled; the fourth allows only one value.
    actions = np.array([[0.9, -1.0, 7.0, 0.0], [1.5, -3.0, -2.0, 9.0]], np.float32)
    np.testing.assert_allclose(model.overshoots(actions), [0, (0.5**2 + 2.0**2 + 1.0**2) / 4], atol=1e-12)


@pytest.mark.parametrize("mean", [0.4, 9.0, -70.0])
def test_the_mass_of_clipped_actions_and_the_density_between_the_bounds_sum_to_1(mean):
    model = make_action_space(Box(-3.0, 5.0, (1,), np.float64))
    env_actions = np.linspace(-3.0, 5.0, 20_001)
    own = model.from_env(env_actions[:, None]).astype(np.float64)
    own[0], own[-1] = -1e6, 1e6  # drawn far outside of the bounds, and clipped
    outputs = np.tile(np.array([mean / 4, np.log(0.3)]), (len(own), 1))
    log_probs = log_probs_in_env(model, outputs, own)
    masses = np.exp(log_probs[[0, -1]].astype(np.float64))
    between = np.exp(log_probs[1:-1].astype(np.float64)).sum() * (env_actions[1] - env_actions[0])
    assert masses.sum() + between == pytest.approx(1.0, abs=2e-3)


def test_a_coordinate_with_equal_bounds_does_not_contribute_to_the_log_probability():
    model = make_action_space(Box(np.array([-1.0, 2.0]), np.array([1.0, 2.0]), dtype=np.float64))
    outputs, actions = np.array([[0.1, 0.2, -0.5, -0.5]], np.float32), np.array([[0.3, 0.9]], np.float32)
    alone = make_action_space(Box(-1.0, 1.0, (1,), np.float64))
    found = log_probs_in_env(model, outputs, actions)
    assert found == pytest.approx(alone.log_prob(outputs[:, ::2], actions[:, :1]), rel=1e-6)


def test_the_density_of_squashed_actions_in_env_units_integrates_to_1():
    model = SquashedBoxActions(BoxScale(Box(-3.0, 5.0, (1,), np.float64)))
    env_actions = np.linspace(-3.0, 5.0, 20_001)[1:-1]
    own = model.from_env(env_actions[:, None])
    outputs = np.tile(np.array([0.4, -0.7], np.float32), (len(own), 1))
    log_probs = log_probs_in_env(model, outputs, own).astype(np.float64)
    assert np.exp(log_probs).sum() * (env_actions[1] - env_actions[0]) == pytest.approx(1.0, abs=1e-3)


def test_the_log_prob_of_a_recorded_action_at_a_float64_bound_is_that_of_being_clipped() -> None:
    draws = np.random.default_rng(0)
    low = draws.uniform(-3, 0, 200)
    space = Box(low, low + draws.uniform(0.1, 5, 200), dtype=np.float64)
    model = make_action_space(space)
    outputs = np.zeros((1, 400), np.float32)
    for recorded in (space.low, space.high):
        found = log_probs_in_env(model, outputs, model.from_env(recorded[None]))
        assert found[0] == pytest.approx(200 * np.log(0.15865525), rel=1e-4)  # each is beyond one standard deviation
