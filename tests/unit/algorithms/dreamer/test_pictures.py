"""Pictures of what a world model observes and imagines."""

from __future__ import annotations

import base64
import re
import struct
import xml.etree.ElementTree as ElementTree
import zlib
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch

from rlrun.algorithms.dreamer.dreamer import DreamerConfig
from rlrun.algorithms.dreamer.model_config import DreamerModelConfig
from rlrun.algorithms.dreamer.pictures import observed_and_imagined, picture_of, png_of
from rlrun.algorithms.dreamer.policy import DreamerPolicy
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.data.tree import map_tree
from tests.policies import policy_from
from tests.rounding import rounding_error

VECTOR = gymnasium.spaces.Box(-np.inf, np.inf, (2,))
IMAGE = gymnasium.spaces.Box(0, 255, (48, 48, 1), np.uint8)
LENGTH = 9


def found_for(space: gymnasium.Space[Any], start_at: int | None = None) -> tuple[SampleBatch, dict[str, Any]]:
    policy = policy_from(
        DreamerPolicy,
        DreamerConfig,
        space,
        gymnasium.spaces.Discrete(2),
        DreamerModelConfig(size="nano"),
        num_bins=15,
        horizon=2,
        seed=0,
    )
    generator = torch.Generator().manual_seed(0)
    starts = torch.zeros(1, LENGTH + 1, dtype=torch.bool)
    if start_at is not None:
        starts[0, start_at] = True
    obs = torch.randn(1, LENGTH + 1, 2, generator=generator)
    batch = SampleBatch(
        obs=obs if space is VECTOR else (obs[..., :1, None, None] * 40 + 120).to(torch.uint8).expand(-1, -1, 48, 48, 1),
        valid=torch.ones(1, LENGTH, dtype=torch.bool),
        rewards=torch.randn(1, LENGTH, generator=generator),
        discounts=torch.full((1, LENGTH), 0.9),
        actions=torch.zeros(1, LENGTH, dtype=torch.int64),
        episode_starts=starts,
        state=torch.zeros(1, policy.spec.state_size),
        latent_noise=torch.rand(1, LENGTH + 1, 4, generator=generator),
    )
    views = policy.parameters.views(policy.parameters.gather(policy.module))
    with torch.no_grad():
        found = observed_and_imagined(policy.outputs(views, batch), batch)
    return batch, map_tree(lambda leaf: leaf.numpy(), found)


def test_observed_numbers_and_rewards_are_shown_unchanged() -> None:
    batch, found = found_for(VECTOR)
    shown, expected = found["numbers"]
    np.testing.assert_allclose(shown, batch["obs"][0], rtol=rounding_error(4))
    assert expected.shape == shown.shape
    np.testing.assert_allclose(found["rewards"][1:], batch["rewards"][0])
    assert found["is_known"].all()


def test_a_new_episode_that_starts_during_imagination_is_not_drawn() -> None:
    _, found = found_for(VECTOR, start_at=7)
    assert found["is_known"].tolist() == [True] * 7 + [False] * 3


@pytest.mark.parametrize("space", [VECTOR, IMAGE])
def test_a_picture_is_a_small_svg(space: gymnasium.Space[Any]) -> None:
    _, found = found_for(space)
    picture = picture_of(found)
    root = ElementTree.fromstring(picture)
    assert root.tag.endswith("svg")
    assert len(picture) < 100_000
    assert len(re.findall("<polyline", picture)) == (9 if space is VECTOR else 3)
    assert len(re.findall("<image", picture)) == (0 if space is VECTOR else 1)


def test_small_noise_is_drawn_to_scale_and_the_time_axis_has_labels() -> None:
    steps = np.arange(8)
    noise = 1.0 + 0.001 * (-1.0) ** steps
    known = np.ones(8, np.bool_)
    picture = picture_of(
        {
            "numbers": (np.stack([4.0 * np.sin(steps), noise], -1), np.stack([4.0 * np.sin(steps), noise], -1)),
            "images": (),
            "decoded_images": (),
            "rewards": noise,
            "expected_rewards": noise,
            "is_known": known,
            "is_behind": known,
        }
    )
    lines = re.findall('stroke="#999" stroke-width="2" points="([^"]*)"', picture)
    heights = [np.ptp([float(point.split(",")[1]) for point in line.split()]) for line in lines]
    assert heights[0] < 2  # the curve of the reward
    assert heights[2] < 2  # the noise, drawn to the scale of a component with values up to 4
    assert heights[1] == pytest.approx(110, abs=0.2)
    assert re.findall("<text[^>]*>([0-7])</text>", picture) == ["0", "2", "4", "5", "7"]
    assert "component 1 of 2 of the observation" in picture


def test_an_encoded_png_contains_the_given_pixels() -> None:
    pixels = np.arange(2 * 3 * 3, dtype=np.uint8).reshape(2, 3, 3)
    data = png_of(pixels)
    assert struct.unpack(">II", data[16:24]) == (3, 2)
    size = struct.unpack(">I", data[33:37])[0]
    lines = np.frombuffer(zlib.decompress(data[41 : 41 + size]), np.uint8).reshape(2, 10)
    np.testing.assert_array_equal(lines[:, 1:].reshape(2, 3, 3), pixels)
    assert base64.b64encode(data).startswith(b"iVBOR")
