"""Encoders with parameters: sets of entities, embeddings, images of any size; one after another in a Dict."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete
from torch import Tensor
from torch.func import functional_call

from rlrun.engine.data.tree import map_tree
from rlrun.engine.learner.executors.numpy_update import recorded
from rlrun.engine.nn.encoders import EntityEncoder, ObservationEncoder, encoder
from rlrun.engine.nn.model_config import ModelConfig, ObservationConfig, Pooling
from rlrun.engine.nn.network_module import NetworkModule, initialize, seeded
from rlrun.engine.nn.network_spec import Core, Head, Tower, network_spec
from rlrun.engine.nn.observation_leaf import ENTITY_FEATURES, ObservationLeaf
from rlrun.engine.nn.observation_leaves import described_leaves, observation_leaves
from rlrun.engine.nn.torch_network import TorchActingNetwork, TorchNetwork
from tests.rounding import rounding_error

POOLINGS: tuple[Pooling, ...] = ("attention", "mean", "max")
NUMBER, FEATURES = 6, 4
NEAR = rounding_error(FEATURES + 64 + NUMBER)  # inputs of both layers and of the pooling


def entity_encoder(pooling: Pooling, seed: int = 0) -> EntityEncoder:
    with seeded(seed):
        return EntityEncoder(ObservationLeaf("entities", (NUMBER, FEATURES), pooling=pooling, mask="mask"))


def some_entities(seed: int = 0) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    entities = torch.randn(5, NUMBER, FEATURES, generator=generator)
    mask = torch.rand(5, NUMBER, generator=generator) < 0.6
    mask[:, 0] = True
    return entities, mask


@pytest.mark.parametrize("pooling", POOLINGS)
def test_the_order_of_entities_does_not_affect_their_encoding(pooling: Pooling) -> None:
    encode = entity_encoder(pooling)
    entities, mask = some_entities()
    order = torch.randperm(NUMBER, generator=torch.Generator().manual_seed(1))
    torch.testing.assert_close(encode(entities[:, order], mask[:, order]), encode(entities, mask), atol=NEAR, rtol=0)


@pytest.mark.parametrize("pooling", POOLINGS)
def test_masked_entities_have_no_effect_whatever_their_values(pooling: Pooling) -> None:
    encode = entity_encoder(pooling)
    entities, mask = some_entities()
    expected = encode(entities, mask)
    more = torch.cat([entities, torch.full((5, 3, FEATURES), 1e6)], 1)
    more_mask = torch.cat([mask, torch.zeros(5, 3, dtype=torch.bool)], 1)
    torch.testing.assert_close(encode(more, more_mask), expected, atol=NEAR, rtol=0)
    broken = entities.masked_fill(~mask.unsqueeze(-1), torch.nan)
    torch.testing.assert_close(encode(broken, mask), expected, atol=NEAR, rtol=0)
    for kind in (torch.int8, torch.uint8, torch.float32):
        torch.testing.assert_close(encode(entities, mask.to(kind)), expected, atol=0, rtol=0)


@pytest.mark.parametrize("pooling", POOLINGS)
def test_if_no_entity_is_present_the_output_is_zero_and_gradients_are_finite(pooling: Pooling) -> None:
    encode = entity_encoder(pooling)
    entities, mask = some_entities()
    entities.requires_grad_()
    mask[0] = False
    pooled = encode(entities, mask)
    assert pooled[0].tolist() == [0.0] * ENTITY_FEATURES
    assert pooled[1:].any(1).all()
    gradients = torch.autograd.grad(pooled.square().sum(), [entities, *encode.parameters()])
    assert all(gradient.isfinite().all() for gradient in gradients)
    assert not gradients[0][0].any()


@pytest.mark.parametrize("pooling", POOLINGS)
def test_pooling_matches_its_definition(pooling: Pooling) -> None:
    encode = entity_encoder(pooling)
    entities, mask = some_entities()
    for row, present, pooled in zip(entities, mask, encode(entities, mask), strict=True):
        features = encode.net(row[present])
        if pooling == "attention":
            scores = (features @ encode.scores.weight.T) / 8
            weights = scores.exp() / scores.exp().sum(0)
            heads = features.view(len(features), 4, 16)
            expected = torch.einsum("kh,khe->he", weights, heads).flatten()
        else:
            expected = features.mean(0) if pooling == "mean" else features.amax(0)
        torch.testing.assert_close(pooled, expected, rtol=NEAR, atol=NEAR)


def test_without_a_mask_all_entities_count_as_present() -> None:
    encode = entity_encoder("attention")
    entities, _ = some_entities()
    torch.testing.assert_close(encode(entities), encode(entities, torch.ones(5, NUMBER)), atol=0, rtol=0)


def test_entities_with_bounds_are_scaled_to_the_range_from_0_to_1() -> None:
    with seeded(0):
        own = EntityEncoder(ObservationLeaf("entities", (NUMBER, FEATURES), pooling="mean", scale=0.25, low=-2.0))
    entities, _ = some_entities()
    torch.testing.assert_close(own(entities), entity_encoder("mean")((entities + 2) / 4))


RICH = Dict(
    {
        "map": Box(0, 255, (24, 20, 3), np.uint8),
        "camera": Box(0, 255, (36, 40), np.uint8),
        "speed": Box(-1, 1, (2,)),
        "near": Dict({"others": Box(-1, 1, (4, 3)), "is_there": MultiBinary(4)}),
        "far": Dict({"others": Box(0, 255, (2, 5), np.uint8), "is_there": Box(0, 1, (2,), np.int8)}),
        "grid": Box(0, 3, (3, 3), np.int8),
        "kinds": MultiDiscrete(np.full((2, 2), 5), start=np.full((2, 2), -1)),
        "one": Discrete(4),
    }
)
RICH_SETTINGS = {
    "near/others": ObservationConfig(encode_as="entities", mask="is_there"),
    "far/others": ObservationConfig(encode_as="entities", mask="is_there", pooling="max"),
    "kinds": ObservationConfig(encode_as="embedding"),
}


LEARNED = Dict({key: RICH[key] for key in ("near", "far", "kinds", "speed")})
"""Parts whose encoders have parameters, except images."""


def rich_leaves(space: Dict = RICH) -> Any:
    return observation_leaves(space, RICH_SETTINGS, normalize=True)


def rich_observations(*dimensions: int, space: Dict = RICH) -> Any:
    space.seed(0)
    drawn = [space.sample() for _ in range(int(np.prod(dimensions)))]
    return map_tree(lambda *parts: np.stack(parts).reshape(*dimensions, *np.shape(parts[0])), *drawn)


def test_every_part_of_a_dict_has_its_own_encoder(wording) -> None:
    assert dict(described_leaves(rich_leaves())) == {
        "camera": wording("255"),
        "far/is_there": wording(),
        "far/others": wording("is_there", "255", "64"),
        "grid": wording(),
        "kinds": wording("-1"),
        "map": wording("255"),
        "near/is_there": wording(),
        "near/others": wording("is_there", "64"),
        "one": wording(),
        "speed": wording(),
    }
    encode = ObservationEncoder(rich_leaves())
    widths = [part.width for part in encode.parts]
    assert widths == [512, 64, 36, 32, 128, 64, 4, 2]
    observations = map_tree(torch.as_tensor, rich_observations(3))
    encoded = encode(observations)
    assert encoded.shape == (3, encode.width)
    near = encode.parts[5](observations["near"]["others"], observations["near"]["is_there"])
    torch.testing.assert_close(encoded[:, sum(widths[:5]) : sum(widths[:6])], near)


def rich_network(core: Core | None, space: Dict = RICH) -> NetworkModule:
    heads = Tower((Head("outputs", "p", 4), Head("value", "v", 1)))
    with seeded(3):
        module = NetworkModule(network_spec(rich_leaves(space), ModelConfig(hiddens=(8,)), heads, core=core))
    initialize([module], module, orthogonal=True, seed=3)
    return module


@pytest.mark.parametrize("core", [None, Core("gru", 6)], ids=["", "gru"])
def test_the_outputs_of_acting_step_by_step_equal_those_of_evaluating_rows(core: Core | None) -> None:
    module, slots, length = rich_network(core), 2, 3
    assert not module.spec.is_dense
    observations = rich_observations(slots, length)
    starts = np.zeros((slots, length), np.bool_)
    starts[0, 2] = True
    first = np.zeros((slots, module.spec.state_size), np.float32)
    with torch.no_grad():
        rows, _ = module(
            {"obs": map_tree(torch.as_tensor, observations)}, torch.from_numpy(first), torch.from_numpy(starts)
        )
    network, state = TorchActingNetwork(TorchNetwork(module), 0, module.spec.state_size), first
    encoded = sum(part.width for part in ObservationEncoder(rich_leaves()).parts)
    for t in range(length):
        step = {"obs": map_tree(lambda leaf, t=t: leaf[:, t], observations)}
        heads, after = network(step, None if core is None else state, starts[:, t])
        state = state if after is None else after
        for name, head in rows.items():
            np.testing.assert_allclose(heads[name], head[:, t].numpy(), atol=rounding_error(encoded + 8 + 6))


def test_the_traced_gradient_of_a_network_equals_the_eager_one() -> None:
    module = rich_network(None, LEARNED)
    names, parameters = zip(*module.named_parameters(), strict=True)
    observations = map_tree(torch.as_tensor, rich_observations(4, 2, space=LEARNED))

    def gradients(*values: Tensor) -> list[Tensor]:
        leaves = [value.detach().requires_grad_() for value in values]
        heads, _ = functional_call(module, dict(zip(names, leaves, strict=True)), ({"obs": observations},))
        return [*torch.autograd.grad(heads["outputs"].square().sum() + heads["value"].sum(), leaves)]

    graph, held = recorded(gradients, parameters), torch.nn.Module()
    for node in graph.nodes:
        if node.op == "get_attr":
            setattr(held, str(node.target), node.meta["result"])
    moved = [parameter.detach() + 0.01 for parameter in parameters]
    found = torch.fx.GraphModule(held, graph)(*moved)
    encoded = sum(part.width for part in ObservationEncoder(rich_leaves(LEARNED)).parts)
    for own, expected in zip(found, gradients(*moved), strict=True):
        near = rounding_error(8 + encoded + 8)
        torch.testing.assert_close(own, expected, rtol=near, atol=near)


SIZES = [(7, 7), (20, 20), (40, 30), (9, 50), (128, 160)]


@pytest.mark.parametrize("conv", ["nature", "impala", "small", None])
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_convolutions_handle_images_of_any_size(conv: Any, size: tuple[int, int]) -> None:
    tree = observation_leaves(
        Box(0, 255, (*size, 1), np.uint8), {"": ObservationConfig(encode_as="image")}, normalize=False, conv=conv
    )
    assert tree.conv == (conv or ("nature" if min(size) >= 36 else "small"))
    with seeded(0):
        own = encoder(tree)
    images = torch.randint(0, 256, (2, *size, 1), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    features = own(images)
    assert features.shape == (2, tree.width)
    assert features.isfinite().all()
    assert (features[0] != features[1]).any()


def test_convolutions_for_large_images_have_the_shapes_of_the_nature_network() -> None:
    tree = observation_leaves(Box(0, 255, (84, 84, 4), np.uint8), {}, normalize=False)
    shapes = [tuple(parameter.shape) for parameter in encoder(tree).parameters()]
    assert shapes[0::2] == [(32, 4, 8, 8), (64, 32, 4, 4), (64, 64, 3, 3), (512, 3136)]


def test_equal_values_share_an_embedding_and_values_out_of_bounds_are_zero() -> None:
    tree = observation_leaves(
        Box(0, 255, (2, 2), np.uint8), {"": ObservationConfig(encode_as="embedding", bounds=(1, 4))}, normalize=False
    )
    own = encoder(tree)
    encoded = own(torch.tensor([[[1, 4], [4, 7]]], dtype=torch.uint8)).view(4, 8)
    vectors = own.vectors.weight.T
    torch.testing.assert_close(encoded, torch.stack([vectors[0], vectors[3], vectors[3], torch.zeros(8)]))
