"""How parts of observations enter networks; both executors agree bit for bit."""

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Tuple

from rlrun.engine.data.tree import map_tree
from rlrun.engine.messages.errors import SpecError, UsageError
from rlrun.engine.nn.encoders import ObservationEncoder
from rlrun.engine.nn.model_config import ModelConfig, ObservationConfig
from rlrun.engine.nn.observation_leaves import dense_inputs, described_leaves, observation_leaves
from rlrun.engine.policy.observation_filter import ObservationFilter
from tests.rounding import rounding_error

SET = Dict(others=Box(-1, 1, (4, 3)), mask=MultiBinary(4), wide=MultiBinary(5), one=Discrete(4))


def leaf_of(space, setting=None, *, normalize=False):
    return observation_leaves(space, {} if setting is None else {"": ObservationConfig(**setting)}, normalize=normalize)


def both_sides(tree, observations):
    """Returns the input of a dense layer, after checking that both sides agree."""
    numbers = dense_inputs(tree, observations)
    encoded = ObservationEncoder(tree)(map_tree(torch.as_tensor, observations))
    np.testing.assert_array_equal(encoded.numpy(), numbers)
    assert numbers.dtype == np.float32
    return numbers


@pytest.mark.parametrize(
    ("space", "setting", "said"),
    [
        (
            Box(-1, 1, (4,)),
            None,
            "vector of 4 numbers, unscaled",
        ),
        (Box(-1, 1, (4,)), {"bounds": [-2, 2]}, "vector of 4 numbers, -2 subtracted, scaled by 1/4"),
        (Box(0, 10, (7, 7, 3), np.uint8), None, "7x7x3 values from 0 to 10, one-hot encoded"),
        (Box(0, 15, (7,), np.int64), None, "7 values from 0 to 15, one-hot encoded"),
        (Box(-1, 1, (3, 3), np.int8), None, "3x3 values from -1 to 1, one-hot encoded"),
        (Box(0, 16, (7,), np.int64), None, "vector of 7 numbers, scaled by 1/16"),
        (
            Box(0, 1, (8, 8), np.int8),
            None,
            ("vector of 8x8 numbers, unscaled"),
        ),
        (Box(0, 255, (7, 7, 3), np.uint8), None, "vector of 7x7x3 numbers, scaled by 1/255"),
        (Box(0, 255, (7, 7, 3), np.uint8), {"bounds": [0, 10]}, "7x7x3 values from 0 to 10, one-hot encoded"),
        (
            Box(0, 255, (7,), np.uint8),
            {"encode_as": "vector", "bounds": [0, 10]},
            "vector of 7 numbers, scaled by 1/10",
        ),
        (Box(0, 24, (7,), np.uint8), {"encode_as": "one_hot"}, "7 values from 0 to 24, one-hot encoded"),
        (Box(0, 10, (7,), np.uint8), {"encode_as": "vector"}, "vector of 7 numbers, scaled by 1/10"),
        (
            Box(-(2**63), 2**63 - 1, (2,), np.int64),
            None,
            "vector of 2 numbers, unscaled",
        ),
        (Box(0, 255, (84, 84, 4), np.uint8), None, "image 84x84x4, scaled by 1/255, encoded by nature"),
        (
            Box(0, 1, (36, 36, 3), np.uint8),
            None,
            "image 36x36x3, unscaled, encoded by nature",
        ),
        (Box(0, 10, (36, 36, 3), np.uint8), None, "image 36x36x3, scaled by 1/10, encoded by nature"),
        (Box(0, 1, (36, 36, 3)), None, "image 36x36x3, unscaled, encoded by nature"),
        (Box(0, 255, (36, 36, 3)), None, "image 36x36x3, scaled by 1/255, encoded by nature"),
        (
            Box(-np.inf, np.inf, (36, 36, 3)),
            None,
            "image 36x36x3, unscaled, encoded by nature",
        ),
        (Box(0, 255, (36, 36), np.uint8), None, "image 36x36, scaled by 1/255, encoded by nature"),
        (
            Box(0, 1, (36, 36)),
            None,
            ("vector of 36x36 numbers, unscaled"),
        ),
        (
            Box(0, 1, (36, 36)),
            {"encode_as": "image"},
            "image 36x36, unscaled, encoded by nature",
        ),
        (Box(0, 255, (4, 84, 84, 3), np.uint8), None, "image 4x84x84x3, scaled by 1/255, encoded by nature"),
        (Box(0, 255, (84, 84, 4), np.uint8), {"encode_as": "vector"}, "vector of 84x84x4 numbers, scaled by 1/255"),
        (Box(0, 255, (24, 40, 3), np.uint8), None, "image 24x40x3, scaled by 1/255, encoded by small"),
        (
            Box(0, 24, (7,), np.uint8),
            {"encode_as": "embedding"},
            "7 values from 0 to 24, each embedded as 8 features",
        ),
        (
            Box(-1, 1, (5, 3)),
            {"encode_as": "entities"},
            "entities 5x3, unscaled, pooled by attention over all entities into 64 features",
        ),
        (
            Box(0, 9, (5, 3), np.int8),
            {"encode_as": "entities", "pooling": "mean"},
            "entities 5x3, scaled by 1/9, pooled by mean over all entities into 64 features",
        ),
        (Discrete(5, start=2), None, "one choice of 5 values, one-hot encoded"),
        (
            Discrete(5, start=2),
            {"encode_as": "embedding"},
            "1 value from 2 to 6, each embedded as 8 features",
        ),
        (MultiDiscrete([[3, 4], [3, 4]]), None, "2x2 choices, one-hot encoded (14 values in total)"),
        (MultiDiscrete([2, 3]), None, "choices of 2, 3 values, one-hot encoded"),
        (
            MultiBinary(3),
            None,
            "vector of 3 numbers, unscaled",
        ),
    ],
)
def test_the_description_of_a_part_says_how_it_is_encoded(space, setting, said):
    assert leaf_of(space, setting).describe() == said


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.int16, np.int64])
def test_small_integers_are_one_hot_encoded_in_numpy_and_torch(dtype):
    tree = leaf_of(Box(1, 4, (2, 3), dtype))
    observations = np.array([[[1, 2, 3], [4, 1, 2]], [[4, 4, 4], [1, 1, 1]]], dtype)
    expected = (observations.reshape(2, 6, 1) == [1, 2, 3, 4]).reshape(2, 24)
    np.testing.assert_array_equal(both_sides(tree, observations), expected)
    assert tree.width == 24


def test_an_out_of_bounds_integer_is_encoded_as_zeros():
    tree = leaf_of(Box(0, 255, (2,), np.uint8), {"encode_as": "one_hot", "bounds": [0, 2]})
    assert both_sides(tree, np.array([[2, 200]], np.uint8)).tolist() == [[0, 0, 1, 0, 0, 0]]


@pytest.mark.parametrize(
    ("space", "setting"),
    [
        (Box(0, 100, (5,), np.int64), None),
        (Box(-3, 100, (2, 5), np.int16), None),
        (Box(0, 255, (5,), np.uint8), {"bounds": [0, 100]}),
        (Box(-4, 4, (5,)), {"bounds": [-4, 4]}),
    ],
)
def test_bounds_are_scaled_to_0_and_1_in_numpy_and_torch(space, setting):
    tree = leaf_of(space, setting)
    low, high = (setting or {}).get("bounds", (space.low.min(), space.high.max()))
    observations = np.stack([np.full(space.shape, low), np.full(space.shape, high)]).astype(space.dtype)
    assert both_sides(tree, observations)[:, 0].tolist() == pytest.approx([0.0, 1.0])


def test_settings_of_nested_parts_are_given_by_their_paths(wording):
    space = Dict(inner=Tuple([Box(0, 255, (3,), np.uint8), Discrete(2)]), other=Box(0, 255, (3,), np.uint8))
    settings = {"inner/0": ObservationConfig(encode_as="one_hot", bounds=(0, 2))}
    tree = observation_leaves(space, settings, normalize=False)
    assert described_leaves(tree) == [
        wording("inner/0"),
        wording("inner/1"),
        wording("255"),
    ]
    three = np.array([[0, 1, 2]], np.uint8)
    found = both_sides(tree, {"inner": (three, np.array([1])), "other": three})
    assert found.shape == (1, 14)


@pytest.mark.parametrize(
    ("space", "settings", "message"),
    [
        (Box(-1, 1, (2,)), {"speed": {}}, "has no part 'speed'; its parts are ''"),
        (Dict(speed=Box(-1, 1, (2,))), {"": {}}, "its parts are 'speed'"),
        (Dict(kind=Discrete(3)), {"kind": {"bounds": [0, 2]}}, "which supports only encode_as: one_hot or embedding"),
        (
            Dict(kind=Discrete(3)),
            {"kind": {"encode_as": "vector"}},
            "which supports only encode_as: one_hot or embedding",
        ),
        (Dict(bits=MultiBinary(3)), {"bits": {"encode_as": "image"}}, "which has no settings; leave it out"),
        (Dict(camera=Box(-1, 1, (2,))), {"camra": {}}, "its parts are 'camera'; did you mean 'camera'"),
        (Box(-1, 1, (2,)), {"": {"encode_as": "embedding"}}, "learned encodings support whole numbers"),
        (
            Box(-1, 1, (2,)),
            {"": {"encode_as": "entities"}},
            r"cannot be encoded as entities, which need shape \[entities, features\]",
        ),
        (
            SET,
            {"others": {"encode_as": "entities", "mask": "maks"}},
            "'maks'; available: 'mask'.*; did you mean 'mask'",
        ),
        (SET, {"others": {"encode_as": "entities", "mask": "others"}}, "is not a sibling part: 'others'"),
        (SET, {"others": {"encode_as": "entities", "mask": "wide"}}, r"must be a Box or MultiBinary of shape \(4,\)"),
        (
            SET,
            {"others": {"encode_as": "entities", "mask": "one"}},
            r"must be a Box or MultiBinary .* not Discrete\(4\)",
        ),
        (
            SET,
            {"others": {"encode_as": "entities", "mask": "mask"}, "mask": {}},
            "has no part 'mask'; its parts are 'others'",
        ),
        (Box(-1, 1, (2,)), {"": {"encode_as": "one_hot"}}, "whole numbers"),
        (Box(-(2**63), 2**63 - 1, (2,), np.int64), {"": {"encode_as": "one_hot"}}, "set bounds"),
        (Box(0, 9, (2,), np.int64), {"": {"encode_as": "one_hot", "bounds": [0, 0.5]}}, "whole numbers"),
        (Box(0, 255, (400,), np.uint8), {"": {"encode_as": "image"}}, "is not an image"),
        (
            Dict(action_mask=Box(0, 1, (2,), np.int8), seen=Discrete(2)),
            {"action_mask": {}},
            "has no part 'action_mask'; its parts are 'seen'",
        ),
    ],
)
def test_settings_that_do_not_fit_their_part_of_the_observation_are_refused(space, settings, message):
    settings = {path: ObservationConfig(**setting) for path, setting in settings.items()}
    with pytest.raises(UsageError, match=message):
        observation_leaves(space, settings, normalize=False)


def test_equal_bounds_and_observation_settings_for_a_custom_network_are_refused(wording):
    with wording.raised(SpecError, "1.0"):
        ModelConfig(observations={"": {"bounds": [1, 1]}})
    with wording.raised(SpecError):
        ModelConfig(observations={"": {"encode_as": "vector"}}, module="my_lab.nets:Net")


def test_integers_are_normalized_if_they_enter_as_a_vector_without_bounds(wording):
    space = Dict(
        counts=Box(0, 1000, (2,), np.int64),
        grid=Box(0, 10, (3, 3), np.uint8),
        memory=Box(0, 255, (4,), np.uint8),
        speed=Box(-1, 1, (2,)),
    )
    tree = observation_leaves(space, {"memory": ObservationConfig(bounds=(0, 255))}, normalize=True)
    assert dict(described_leaves(tree)) == {
        "counts": wording(),
        "grid": wording("0", "10"),
        "memory": wording("255"),
        "speed": wording(),
    }
    found = ObservationFilter(tree)
    assert found.names == {"counts": "observations/counts", "grid": "", "memory": "", "speed": "observations/speed"}
    rng = np.random.default_rng(0)
    rows = {key: rng.integers(0, 9, (50, 2, *part.shape)).astype(part.dtype) for key, part in space.items()}
    found.load(found.moments(rows, np.ones((50, 2), bool)))
    counts = found(rows)["counts"]
    np.testing.assert_allclose([counts.mean((0, 1)), counts.std((0, 1))], [[0, 0], [1, 1]], atol=rounding_error(2 * 50))
    assert both_sides(tree, map_tree(lambda leaf: leaf[0], found(rows))).shape == (2, 107)


@pytest.mark.parametrize(
    ("shape", "channels"),
    [((36, 40), 1), ((36, 40, 3), 3), ((3, 36, 40), 3), ((4, 36, 40, 3), 12), ((4, 3, 36, 40), 12)],
)
def test_images_in_any_layout_reach_the_convolutions_with_channels_first(shape, channels):
    tree = leaf_of(Box(0, 255, shape, np.uint8))
    assert tree.channels_height_width == (channels, 36, 40)
    (encoder,) = ObservationEncoder(tree).parts
    seen = []
    encoder.layers.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    images = np.random.default_rng(0).integers(0, 256, (2, *shape), np.uint8)
    encoder(torch.as_tensor(images))
    stacks = images.reshape(2, -1, *shape[-3:]) if len(shape) > 2 else images[:, None, None]
    planes = np.moveaxis(stacks, -1, -3) if tree.channels_last else stacks
    np.testing.assert_allclose(seen[0].numpy(), planes.reshape(2, channels, 36, 40) / 255, rtol=rounding_error(2))


def test_images_are_scaled_by_the_bounds_of_their_space():
    tree = leaf_of(Box(10, 30, (36, 36, 1), np.uint8))
    (encoder,) = ObservationEncoder(tree).parts
    seen = []
    encoder.layers.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    encoder(torch.full((1, 36, 36, 1), 20, dtype=torch.uint8))
    assert seen[0].unique().tolist() == [0.5]


def test_observation_spaces_that_networks_do_not_support_are_refused():
    with pytest.raises(UsageError, match="networks do not support the observation space Text"):
        leaf_of(gymnasium.spaces.Text(3))


def test_entities_and_embedded_integers_are_not_normalized():
    settings = {
        "others": ObservationConfig(encode_as="entities", mask="mask"),
        "one": ObservationConfig(encode_as="embedding"),
    }
    tree = observation_leaves(SET, settings, normalize=True)
    assert not any(leaf.is_normalized for leaf in tree.values())
    assert {key: leaf.width for key, leaf in tree.items()} == {"mask": 0, "one": 8, "others": 64, "wide": 5}
    assert {key: leaf.is_dense for key, leaf in tree.items() if key != "mask"} == {
        "one": False,
        "others": False,
        "wide": True,
    }
