"""One description of a network, two executors: torch over rows of steps and NumPy step by step agree."""

import pickle

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Dict, Discrete, MultiDiscrete

from rlrun.engine.nn.model_config import ModelConfig
from rlrun.engine.nn.network_module import NetworkModule, initialize, seeded
from rlrun.engine.nn.network_spec import Core, Head, LogStds, Tower, network_spec
from rlrun.engine.nn.numpy_network import NumpyNetwork
from rlrun.engine.nn.observation_leaves import observation_leaves
from rlrun.engine.nn.torch_network import TorchActingNetwork, TorchNetwork
from rlrun.engine.policy.flat_parameters import FlatParameters
from tests.rounding import rounding_error

NESTED = Dict({"a": Box(-1, 1, (2, 3)), "b": MultiDiscrete([2, 3])})
IMAGE = Box(0, 255, (36, 36, 1), np.uint8)
LENGTH, SLOTS = 40, 5

PLAIN = (Tower((Head("outputs", "head", 4),)),)
HEADS = {
    "plain": PLAIN,
    "head with hidden layers": (Tower((Head("outputs", "stream", 4, hiddens=(7,)),)),),
    "dueling streams": (Tower((Head("outputs", "s", 6, hiddens=(7,), num_actions=3, value_layer="v"),)),),
    "dueling outputs": (Tower((Head("outputs", "head", 3, num_actions=3),)),),
    "free log stds": (Tower((Head("outputs", "head", 4, log_stds=LogStds(2, -0.5)),)),),
    "state-dependent log stds": (Tower((Head("outputs", "head", 4, log_stds=LogStds(2, -0.5, True)),)),),
    "two towers": (Tower((Head("outputs", "p_head", 4),), "p_"), Tower((Head("value", "v_head", 1),), "v_")),
    "two heads": (Tower((Head("outputs", "p_head", 4), Head("value", "v_head", 1))),),
}
NEAR = rounding_error(11 + 9 + 8 + 6)  # inputs of all layers: the observation, both hidden layers, and the core
IMAGE_SUMS = 64 + 512 + 576 + 64 + 512 + 9 + 8 + 6  # three convolutions and the layers after them


def network_of(towers, space=NESTED, core=None, vectors=(), hiddens=(9, 8), normalization=None):
    model = ModelConfig(hiddens=hiddens, activation="elu", normalization=normalization)
    spec = network_spec(observation_leaves(space, {}, normalize=False), model, *towers, core=core, vectors=vectors)
    with seeded(3):
        module = NetworkModule(spec)
    initialize([module], module, orthogonal=False, seed=3)
    return spec, module


def acting(spec, module):
    table = FlatParameters(module)
    network = pickle.loads(pickle.dumps(NumpyNetwork(spec, table.slots_of("", 0))))
    network.load(table.gather(module).numpy())
    return network


def observations_of(space, seed=0):
    space.seed(seed)
    drawn = [[space.sample() for _ in range(SLOTS)] for _ in range(LENGTH)]
    if isinstance(space, Dict):
        return {key: np.array([[one[key] for one in row] for row in drawn]) for key in space.spaces}
    return np.array(drawn)


def at(observations, t):
    return {key: leaf[t] for key, leaf in observations.items()} if isinstance(observations, dict) else observations[t]


def rows_first(observations):
    if isinstance(observations, dict):
        return {key: rows_first(leaf) for key, leaf in observations.items()}
    return torch.from_numpy(np.ascontiguousarray(np.moveaxis(observations, 0, 1)))


def over_rows(module, observations, state=None, starts=None, **vectors):
    inputs = {"obs": rows_first(observations), **{name: rows_first(vector) for name, vector in vectors.items()}}
    with torch.no_grad():
        heads, after = module(
            inputs, None if state is None else torch.from_numpy(state), None if starts is None else rows_first(starts)
        )
    return {name: np.moveaxis(head.numpy(), 0, 1) for name, head in heads.items()}, after


@pytest.mark.parametrize("towers", HEADS.values(), ids=HEADS)
def test_numpy_agrees_with_torch_for_every_kind_of_head(towers):
    spec, module = network_of(towers)
    observations = observations_of(NESTED)
    expected, _ = over_rows(module, observations)
    network = acting(spec, module)
    for t in range(LENGTH):
        heads, state = network({"obs": at(observations, t)})
        assert state is None
        assert heads.keys() == expected.keys()
        for name, head in heads.items():
            np.testing.assert_allclose(head, expected[name][t], atol=NEAR)


@pytest.mark.parametrize("kind", ["plain", "head with hidden layers", "dueling streams", "two towers"])
@pytest.mark.parametrize("core", [None, Core("gru", 6)], ids=["no core", "gru"])
def test_numpy_agrees_with_torch_on_normalized_layers(kind, core):
    spec, module = network_of(HEADS[kind], core=core, normalization="layer")
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            if "norm" in name:
                parameter.copy_(torch.randn(parameter.shape, generator=generator))
    observations = observations_of(NESTED)
    first = None if core is None else np.zeros((SLOTS, spec.state_size), np.float32)
    starts = np.zeros((LENGTH, SLOTS), np.bool_)
    expected, _ = over_rows(module, observations, first, starts)
    network, state = acting(spec, module), first
    for t in range(LENGTH):
        heads, state = network({"obs": at(observations, t)}, state, starts[t])
        for name, head in heads.items():
            np.testing.assert_allclose(head, expected[name][t], rtol=1e-6, atol=1e-6)


def test_layer_normalization_standardizes_units_before_scale_shift_and_activation():
    spec, module = network_of(
        (Tower((Head("outputs", "head", 2),)),), space=Box(-9, 9, (2,)), hiddens=(2,), normalization="layer"
    )
    with torch.no_grad():
        module.trunk[0].weight.copy_(torch.eye(2))
        module.trunk[0].bias.copy_(torch.tensor([0.0, 2.0]))
        module.trunk[0].norm.weight.copy_(torch.tensor([2.0, 1.0]))
        module.trunk[0].norm.bias.copy_(torch.tensor([0.5, 0.0]))
        module.head.weight.copy_(torch.eye(2))
        module.head.bias.zero_()
    # The layer outputs 1 and 7, with a mean of 4 and a variance of 9.
    unit = 3 / np.sqrt(9 + 1e-5)
    expected = [[np.expm1(0.5 - 2 * unit), unit]]
    found, _ = acting(spec, module)({"obs": np.array([[1, 5]], np.float32)})
    np.testing.assert_allclose(found["outputs"], expected, atol=1e-6)
    in_torch, _ = over_rows(module, np.array([[[1, 5]]], np.float32))
    np.testing.assert_allclose(in_torch["outputs"][0], expected, atol=1e-6)


def test_additional_inputs_are_concatenated_with_the_encoded_observation():
    spec, module = network_of(PLAIN, vectors=(("actions", 2), ("goal", 3)))
    observations, generator = observations_of(NESTED), np.random.default_rng(1)
    further = {name: generator.normal(size=(LENGTH, SLOTS, n)).astype(np.float32) for name, n in spec.vectors}
    expected, _ = over_rows(module, observations, **further)
    network = acting(spec, module)
    for t in range(LENGTH):
        heads, _ = network({"obs": at(observations, t), **{name: vector[t] for name, vector in further.items()}})
        np.testing.assert_allclose(heads["outputs"], expected["outputs"][t], atol=NEAR)


@pytest.mark.parametrize("kind", ["lstm", "gru"])
@pytest.mark.parametrize("space", [NESTED, Discrete(4)], ids=["nested", "choices"])
@pytest.mark.parametrize("heads", ["plain", "two towers", "two heads"])
def test_acting_step_by_step_gives_the_outputs_of_evaluating_rows_with_episode_starts(kind, space, heads):
    spec, module = network_of(HEADS[heads], space=space, core=Core(kind, 6))
    generator = np.random.default_rng(2)
    observations = observations_of(space)
    starts = generator.random((LENGTH, SLOTS)) < 0.1
    first = generator.normal(size=(SLOTS, spec.state_size)).astype(np.float32)
    assert spec.state_size == {"lstm": 12, "gru": 6}[kind] * len(spec.towers)
    expected, last = over_rows(module, observations, first, starts)
    in_numpy, in_torch = acting(spec, module), TorchActingNetwork(TorchNetwork(module), 0, spec.state_size)
    for network in (in_numpy, in_torch):
        state = first
        for t in range(LENGTH):
            found, state = network({"obs": at(observations, t)}, state, starts[t])
            for name, head in expected.items():
                np.testing.assert_allclose(found[name], head[t], atol=NEAR)
        np.testing.assert_allclose(state, last, atol=NEAR)


@pytest.mark.parametrize("kind", ["lstm", "gru"])
def test_cores_agree_with_torchs_lstm_and_gru(kind):
    spec, module = network_of(PLAIN, core=Core(kind, 6), hiddens=())
    own = {"lstm": torch.nn.LSTM, "gru": torch.nn.GRU}[kind](spec.inputs(spec.towers[0]), 6, batch_first=True)
    inputs, hidden = (getattr(module, name) for name in spec.core_layers(spec.towers[0]))
    with torch.no_grad():
        own.weight_ih_l0.copy_(inputs.weight)
        own.weight_hh_l0.copy_(hidden.weight)
        own.bias_ih_l0.copy_(inputs.bias)
        own.bias_hh_l0.zero_()
        observations = rows_first(observations_of(NESTED))
        encoded = module.encoder({key: leaf.flatten(0, 1) for key, leaf in observations.items()})
        outputs, _ = own(encoded.view(SLOTS, LENGTH, -1))
        heads, state = module(
            {"obs": observations}, torch.zeros(SLOTS, spec.state_size), torch.zeros(SLOTS, LENGTH, dtype=torch.bool)
        )
        torch.testing.assert_close(heads["outputs"], module.head(outputs))
        torch.testing.assert_close(state[:, :6], outputs[:, -1])


@pytest.mark.parametrize("kind", ["lstm", "gru"])
def test_no_gradient_crosses_an_episode_start(kind):
    _, module = network_of(PLAIN, space=Box(-1, 1, (3,)), core=Core(kind, 6))
    observations = torch.randn(2, 6, 3, requires_grad=True)
    starts = torch.zeros(2, 6, dtype=torch.bool)
    starts[0, 3] = True
    heads, _ = module({"obs": observations}, torch.zeros(2, module.spec.state_size), starts)
    (gradient,) = torch.autograd.grad(heads["outputs"][:, 5].sum(), observations)
    assert not gradient[0, :3].any()
    assert gradient[0, 3:].all(-1).all()
    assert gradient[1].all(-1).all()


@pytest.mark.parametrize("kind", ["lstm", "gru"])
def test_recurrent_image_networks_act_in_torch_with_the_outputs_that_they_learn_from(kind):
    spec, module = network_of(PLAIN, space=IMAGE, core=Core(kind, 6))
    observations = observations_of(IMAGE)[:3]
    starts = np.zeros((3, SLOTS), np.bool_)
    starts[2, 1] = True
    first = np.zeros((SLOTS, spec.state_size), np.float32)
    expected, _ = over_rows(module, observations, first, starts)
    network, state = TorchActingNetwork(TorchNetwork(module), 0, spec.state_size), first
    for t in range(3):
        heads, state = network({"obs": observations[t]}, state, starts[t])
        np.testing.assert_allclose(
            heads["outputs"],
            expected["outputs"][t],
            atol=rounding_error(IMAGE_SUMS, size=float(np.abs(expected["outputs"]).max())),
        )


def test_a_network_reduced_to_one_head_has_only_the_layers_of_that_head():
    spec, module = network_of(HEADS["two towers"])
    value = spec.only("value")
    assert [tower.prefix for tower in value.towers] == ["v_"]
    expected, _ = over_rows(module, observations_of(NESTED))
    network = NumpyNetwork(value, FlatParameters(module).slots_of("", 0))
    network.load(FlatParameters(module).gather(module).numpy())
    heads, _ = network({"obs": at(observations_of(NESTED), 7)})
    assert heads.keys() == {"value"}
    np.testing.assert_allclose(heads["value"], expected["value"][7], atol=NEAR)


def test_a_network_in_a_slice_of_the_flat_vector_finds_its_parameters_there():
    spec, module = network_of(PLAIN)
    root = torch.nn.ModuleDict({"other": torch.nn.Linear(3, 2), "own": module})
    table = FlatParameters(root)
    start, size = table.range_under("own.")
    assert (start, start + size) == (8, table.size)
    network = NumpyNetwork(spec, table.slots_of("own.", start))
    network.load(table.gather(root).numpy()[start:])
    observations = observations_of(NESTED)
    expected, _ = over_rows(module, observations)
    np.testing.assert_allclose(network({"obs": at(observations, 0)})[0]["outputs"], expected["outputs"][0], atol=NEAR)


def test_a_new_lstm_has_a_forget_bias_of_1_and_orthogonal_layers_are_orthogonal():
    spec, _ = network_of(PLAIN, core=Core("lstm", 6))
    module = NetworkModule(spec)
    initialize([module], module, orthogonal=True, seed=0)
    assert module.lstm_inputs.bias.tolist() == [0.0] * 6 + [1.0] * 6 + [0.0] * 12
    hidden = module.trunk[2].weight
    assert torch.equal(hidden * 2**18, (hidden * 2**18).round())  # rounded, and so the same on all processors
    torch.testing.assert_close(hidden @ hidden.T, 2 * torch.eye(8), atol=2**-15, rtol=0)
