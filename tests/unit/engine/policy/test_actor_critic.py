import pickle

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Text, Tuple

from rlrun.engine.data.tree import map_tree
from rlrun.engine.functional.moments import Moments
from rlrun.engine.messages.errors import UsageError
from rlrun.engine.nn.model_config import ModelConfig
from rlrun.engine.nn.observation_leaves import dense_inputs
from rlrun.engine.policy.actor_critic import ActorCriticPolicy
from rlrun.engine.policy.weights import Weights
from tests.policies import plain_policy, samples
from tests.rounding import rounding_error

NESTED = Dict({"a": Box(-1, 1, (2, 3)), "b": Tuple([Discrete(4, start=2), MultiDiscrete([2, 3])]), "c": MultiBinary(2)})
IMAGE = Box(0, 255, (36, 36, 3), np.uint8)
NEAR = rounding_error(17 + 32 + 16)  # inputs of all layers: the nested observation and both hidden layers
NEAR_IMAGES = rounding_error(192 + 512 + 576 + 64 + 512)  # inputs of three convolutions and the layer after them


def policy_for(observation_space, action_space=None, normalize=False, **model):
    return plain_policy(
        ActorCriticPolicy,
        observation_space,
        Discrete(3) if action_space is None else action_space,
        ModelConfig(**model),
        normalize_observations=normalize,
        seed=5,
    )


def randomized(policy, seed=0):
    with torch.no_grad():
        for parameter in policy.module.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=torch.Generator().manual_seed(seed)) / 3)
    return policy.parameters.gather(policy.module).numpy()


def heads_of(policy, observations):
    """The torch module's results for observations [N, ...]: outputs [N, K] and values [N]."""
    with torch.no_grad():
        heads, _ = policy.network(None, {"obs": map_tree(lambda leaf: torch.as_tensor(leaf)[:, None], observations)})
    return heads["outputs"][:, 0].numpy(), heads["value"][:, 0, 0].numpy()


def acted_values(behavior, observations):
    """The acting side's values of observations, [N]."""
    heads, _ = behavior.collector.recording.value_network({"obs": observations})
    return heads["value"][:, 0]


@pytest.mark.parametrize("activation", ["tanh", "relu", "elu", "silu"])
@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("space", [Box(-1, 1, (4,)), Discrete(7), NESTED], ids=["box", "discrete", "nested"])
def test_the_numpy_copy_of_a_network_equals_its_torch_module(space, shared, activation):
    policy = policy_for(space, Box(-1, 1, (2,)), shared_value=shared, activation=activation, hiddens=(32, 16))
    flat = randomized(policy)
    behavior = pickle.loads(pickle.dumps(policy.behavior()))
    behavior.load(Weights(0, flat))
    observations = samples(space, 50)
    outputs, values = heads_of(policy, observations)
    np.testing.assert_allclose(behavior.outputs(observations), outputs, atol=NEAR)
    np.testing.assert_allclose(acted_values(behavior, observations), values, atol=NEAR)


@pytest.mark.parametrize(("low", "high"), [(0, 255), (0, 1), (10, 40), (7, 7)])
def test_bytes_that_are_not_images_are_scaled_to_0_to_1_identically_in_numpy_and_torch(low, high):
    space = Dict({"memory": Box(low, high, (128,), np.uint8), "speed": Box(-9, 9, (2,))})
    policy = policy_for(space)
    observations = samples(space, 50)
    observations["memory"][0], observations["memory"][1] = low, high
    encoded = policy.module.policy_encoder(map_tree(torch.as_tensor, observations)).numpy()
    np.testing.assert_array_equal(dense_inputs(policy.leaves, observations), encoded)
    assert encoded.dtype == np.float32
    between = (observations["memory"].astype(np.float64) - low) / max(high - low, 1)
    np.testing.assert_allclose(encoded, np.concatenate([between, observations["speed"]], -1), rtol=rounding_error(4))
    assert (encoded[0, :128].max(), encoded[1, :128].min()) == (0.0, float(high > low))


@pytest.mark.parametrize("conv", ["nature", "impala"])
def test_image_policies_act_in_torch_with_the_outputs_of_their_module(conv):
    space = Dict({"image": IMAGE, "speed": Box(-1, 1, (2,))})
    policy = policy_for(space, conv=conv, hiddens=(16,))
    flat = randomized(policy)
    behavior = policy.behavior()
    behavior.load(Weights(0, flat))
    observations = samples(space, 4)
    outputs, values = heads_of(policy, observations)
    np.testing.assert_allclose(behavior.outputs(observations), outputs, atol=NEAR_IMAGES)
    np.testing.assert_allclose(acted_values(behavior, observations), values, atol=NEAR_IMAGES)


def test_images_may_have_their_channels_first_or_last():
    for shape in ((4, 84, 84), (84, 84, 4)):
        policy = policy_for(Box(0, 255, shape, np.uint8), hiddens=())
        assert policy.module.policy_encoder.parts[0].layers[0].in_channels == 4


def test_a_new_policy_is_nearly_uniform_and_its_hidden_layers_are_orthogonal():
    module = policy_for(Box(-1, 1, (4,))).module
    hidden = module.policy_trunk[2].weight
    torch.testing.assert_close(hidden @ hidden.T, 2 * torch.eye(64), atol=rounding_error(64, size=2.0), rtol=0)
    assert module.policy_head.weight.abs().max().item() < 0.011
    assert module.value_head.weight.norm().item() == pytest.approx(1.0, abs=rounding_error(64))


def test_the_same_seed_gives_the_same_parameters_and_leaves_torchs_generator_unchanged():
    torch.manual_seed(3)
    expected = torch.rand(1)
    torch.manual_seed(3)
    first, second = (policy_for(IMAGE, hiddens=(8,), orthogonal_init=False) for _ in range(2))
    assert torch.rand(1) == expected
    torch.testing.assert_close(first.parameters.gather(first.module), second.parameters.gather(second.module))


def test_the_order_of_keys_in_an_observation_does_not_affect_the_outputs():
    space = Dict({"speed": Box(-1, 1, (2,)), "image": IMAGE, "wind": Box(-1, 1, (2,))})
    policy = policy_for(space, hiddens=(8,))
    behavior = policy.behavior()
    behavior.load(Weights(0, randomized(policy)))
    observations = samples(space, 3)
    turned = dict(reversed(observations.items()))
    np.testing.assert_array_equal(behavior.outputs(turned), behavior.outputs(observations))


@pytest.mark.parametrize(
    "space",
    [Box(-1, 1, ()), Box(-1, 1, (0,)), Dict({"a": Box(-1, 1, (2,)), "b": Box(-1, 1, (2, 0)), "c": Box(-1, 1, ())})],
    ids=["one number", "nothing", "nested"],
)
@pytest.mark.filterwarnings("ignore:Initializing zero-element tensors")
def test_scalar_and_empty_observations_are_supported(space):
    policy = policy_for(space, hiddens=(8,), normalize=True)
    flat = randomized(policy)
    behavior = policy.behavior()
    behavior.load(Weights(0, flat))
    raw = map_tree(lambda leaf: leaf.reshape(7, 3, *leaf.shape[1:]), samples(space, 21))
    behavior.load(Weights(1, flat, behavior.collector.moments(raw, np.ones((7, 3), np.bool_))))
    batch = recorded_acting(behavior, space)
    batch["valid"] = np.ones((6, 3), bool)
    outputs = policy.outputs(policy.parameters.views(torch.from_numpy(flat)), batch.steps().map(torch.as_tensor))
    np.testing.assert_allclose(outputs.values.detach(), batch["values"][:-1], atol=rounding_error(5 + 8))


def recorded_acting(behavior, space, length=6, columns=3):
    observations = map_tree(
        lambda leaf: leaf.reshape(length + 1, columns, *leaf.shape[1:]), samples(space, (length + 1) * columns)
    )
    noise = behavior.noise_source.noise(np.random.default_rng(0), length, columns)
    batch = behavior.collector.allocate(length, columns)
    for t in range(length):
        behavior.act(
            map_tree(lambda leaf, t=t: leaf[t], observations), noise[t], batch, t, np.zeros(len(noise[t]), np.bool_)
        )
    batch["obs"] = observations
    behavior.collector.postprocess(batch)
    return batch


@pytest.mark.parametrize("space", [NESTED, IMAGE], ids=["dense", "image"])
def test_recorded_log_probs_and_values_equal_those_of_the_learner(space):
    policy = policy_for(space, MultiDiscrete([3, 2]), hiddens=(16,))
    flat = randomized(policy)
    behavior = policy.behavior()
    behavior.load(Weights(0, flat))
    batch = recorded_acting(behavior, space)
    batch["valid"] = np.ones((6, 3), bool)
    rows = batch.steps().map(torch.as_tensor)
    outputs = policy.outputs(policy.parameters.views(torch.from_numpy(flat)), rows)
    torch.testing.assert_close(
        outputs.distribution.log_prob(rows["actions"]), rows["logp"], atol=NEAR_IMAGES, rtol=NEAR_IMAGES
    )
    torch.testing.assert_close(outputs.values, rows["values"], atol=NEAR_IMAGES, rtol=NEAR_IMAGES)
    assert batch["values"].shape == (7, 3)
    assert np.isfinite(batch["values"]).all()


def test_a_filter_normalizes_vectors_before_the_network_and_leaves_discrete_parts_unchanged():
    space = Dict({"far": Box(-np.inf, np.inf, (2,)), "kind": Discrete(3)})
    policy = policy_for(space, normalize=True)
    flat = randomized(policy)
    filters = {"observations/far": Moments.of(np.random.default_rng(0).normal(50, 10, (1000, 2)), 1)}
    filtered, plain = policy.behavior(), policy_for(space).behavior()
    filtered.load(Weights(0, flat, filters))
    plain.load(Weights(0, flat))
    observations = {"far": np.full((1, 2), 60.0, np.float32), "kind": np.array([1])}
    mean, scale = filters["observations/far"].mean, np.sqrt(filters["observations/far"].variance)
    by_hand = {**observations, "far": ((observations["far"] - mean) / scale).astype(np.float32)}
    seen = filtered.filter(observations)
    np.testing.assert_allclose(seen["far"], by_hand["far"], rtol=rounding_error(4))
    assert seen["kind"] is observations["kind"]
    np.testing.assert_allclose(filtered.outputs(observations), plain.outputs(by_hand), rtol=rounding_error(5 + 64 + 64))


def test_normalized_observations_are_bounded():
    policy = policy_for(Box(-np.inf, np.inf, (1,)), normalize=True)
    behavior = policy.behavior()
    behavior.load(Weights(0, randomized(policy), {"observations/": Moments.of(np.array([[0.0], [1e-3]]), 1)}))
    assert behavior.filter(np.array([[1e6], [-1e6]], np.float32)).tolist() == [[10.0], [-10.0]]


def test_filtered_observations_have_the_same_dtype_before_and_after_the_first_statistics():
    policy = policy_for(Box(-1, 1, (2,), np.float64), normalize=True)
    behavior, flat, observations = policy.behavior(), randomized(policy), np.array([[0.1, 0.2]])
    behavior.load(Weights(0, flat))
    before = behavior.filter(observations)
    behavior.load(Weights(1, flat, {"observations/": Moments.of(np.array([[0.0, 0.0], [1.0, 1.0]]), 1)}))
    after = behavior.filter(observations)
    np.testing.assert_array_equal(before, observations.astype(np.float32))
    assert (before.dtype, after.dtype) == (np.float32, np.float32)


def test_without_a_generator_the_likeliest_action_is_taken():
    policy = policy_for(Box(-1, 1, (4,)), Discrete(3, start=1))
    behavior = policy.behavior()
    behavior.load(Weights(0, randomized(policy)))
    observations = samples(Box(-1, 1, (4,)), 20)
    outputs = behavior.outputs(observations)
    np.testing.assert_array_equal(behavior.actions(observations, None), outputs.argmax(-1) + 1)
    drawn = behavior.actions(observations, np.random.default_rng(0))
    assert (drawn != outputs.argmax(-1) + 1).any()


def test_parameters_convert_to_names_and_back_and_those_of_another_network_are_refused(wording):
    policy, other = policy_for(Box(-1, 1, (4,))), policy_for(Box(-1, 1, (5,)))
    flat = randomized(policy)
    named = policy.parameters.named(flat)
    np.testing.assert_array_equal(policy.parameters.from_named(named), flat)
    with wording.raised(ValueError, "policy_trunk.0", "64"):
        other.parameters.from_named(named)


def test_unsupported_observation_spaces_are_refused(wording):
    with wording.raised(UsageError):
        policy_for(Dict({"note": Text(3)}))


OWN_NETWORKS = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self, observation_space, num_outputs, model):
        super().__init__()
        self.body = nn.Linear(observation_space.shape[0], 8)
        self.head, self.value = nn.Linear(8, num_outputs), nn.Linear(8, 1)

    def forward(self, observations):
        features = torch.sin(self.body(observations))
        return self.head(features), self.value(features).squeeze(-1)

class Tied(nn.Module):
    def __init__(self, observation_space, num_outputs, model):
        super().__init__()
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)
        self.second.weight = self.first.weight
        self.head, self.value = nn.Linear(4, num_outputs), nn.Linear(4, 1)

    def forward(self, observations):
        features = self.second(self.first(observations))
        return self.head(features), self.value(features).squeeze(-1)

class Unsqueezed(Net):
    def forward(self, observations):
        outputs, values = super().forward(observations)
        return outputs, values[:, None]

class Through(Net):
    def __init__(self, observation_space, num_outputs, model, between):
        super().__init__(observation_space, num_outputs, model)
        self.body = nn.Sequential(self.body, between)

def batch_norm(*arguments):
    return Through(*arguments, nn.BatchNorm1d(8))

def dropout(*arguments):
    return Through(*arguments, nn.Dropout(0.1))

def frozen(*arguments):
    return Through(*arguments, nn.Sequential(nn.LazyBatchNorm1d(), nn.Dropout(0.1), nn.LayerNorm(8)).eval())

def no_module(observation_space, num_outputs, model):
    return 3
"""


@pytest.fixture
def own_networks(tmp_path, monkeypatch):
    (tmp_path / "own_networks.py").write_text(OWN_NETWORKS)
    monkeypatch.syspath_prepend(tmp_path)


@pytest.mark.usefixtures("own_networks")
def test_a_custom_network_acts_in_torch():
    policy = policy_for(Box(-1, 1, (4,)), module="own_networks:Net")
    flat = randomized(policy)
    behavior = policy.behavior()
    behavior.load(Weights(0, flat))
    observations = samples(Box(-1, 1, (4,)), 5)
    expected, _ = policy.module(torch.as_tensor(observations))
    np.testing.assert_allclose(behavior.outputs(observations), expected.detach(), atol=rounding_error(4 + 8))


@pytest.mark.usefixtures("own_networks")
def test_layers_of_a_custom_network_that_share_a_weight_also_share_it_in_the_learner():
    policy = policy_for(Box(-1, 1, (4,)), module="own_networks:Tied")
    flat = np.random.default_rng(0).normal(size=policy.parameters.size).astype(np.float32)
    behavior = policy.behavior()
    behavior.load(Weights(0, flat))
    batch = recorded_acting(behavior, Box(-1, 1, (4,)))
    batch["valid"] = np.ones((6, 3), bool)
    outputs = policy.outputs(policy.parameters.views(torch.from_numpy(flat)), batch.steps().map(torch.as_tensor))
    near = rounding_error(4 + 4 + 4)
    np.testing.assert_allclose(outputs.values.detach(), batch["values"][:-1], rtol=near, atol=near)


@pytest.mark.usefixtures("own_networks")
def test_a_custom_network_is_initialized_from_the_seed_and_leaves_torchs_generator_unchanged():
    torch.manual_seed(3)
    expected = torch.rand(1)
    torch.manual_seed(3)
    first, second = (policy_for(Box(-1, 1, (4,)), module="own_networks:Net") for _ in range(2))
    assert torch.rand(1) == expected
    torch.testing.assert_close(first.parameters.gather(first.module), second.parameters.gather(second.module))


@pytest.mark.usefixtures("own_networks")
@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "Unsqueezed",
            r"must return outputs \[N, 3\] and values \[N\], but for N = 2 it returned \[\(2, 3\), \(2, 1\)\]",
        ),
        ("no_module", r"must create a torch\.nn\.Module, not int"),
        ("Nett", r"has no 'Nett'; did you mean 'Net'\?"),
    ],
)
def test_a_custom_network_that_does_not_fit_is_refused_with_the_reason(name, message):
    with pytest.raises(UsageError, match=message):
        policy_for(Box(-1, 1, (4,)), module=f"own_networks:{name}")


@pytest.mark.usefixtures("own_networks")
@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "batch_norm",
            r"own_networks:batch_norm changes buffers in forward\(\) \(body\.1\.running_mean, body\.1\.running_var, "
            r"body\.1\.num_batches_tracked\), as BatchNorm does\. .* use LayerNorm or GroupNorm instead",
        ),
        ("dropout", r"own_networks:dropout draws random numbers in forward\(\), as Dropout does\. .*: leave it out"),
    ],
)
def test_networks_with_changing_buffers_or_random_layers_are_refused(name, message):
    with pytest.raises(UsageError, match=message):
        policy_for(Box(-1, 1, (4,)), module=f"own_networks:{name}")


@pytest.mark.usefixtures("own_networks")
def test_dropout_and_batch_norm_layers_are_accepted_in_eval_mode():
    policy = policy_for(Box(-1, 1, (4,)), module="own_networks:frozen")
    behavior = policy.behavior()
    behavior.load(Weights(0, randomized(policy)))
    observations = samples(Box(-1, 1, (4,)), 5)
    expected, _ = policy.module(torch.as_tensor(observations))
    np.testing.assert_allclose(behavior.outputs(observations), expected.detach(), atol=rounding_error(4 + 8))
