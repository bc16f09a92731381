"""A world model over rows equals the model step by step, and its state is reset where episodes begin."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest
import torch
from torch import Tensor

from rlrun.algorithms.dreamer.model_config import SIZES, DreamerModelConfig
from rlrun.algorithms.dreamer.world_model import States, WorldModel, WorldModelParameters, drawn
from rlrun.algorithms.dreamer.world_model_spec import WorldModelSpec
from rlrun.engine.nn.network_module import seeded
from rlrun.engine.policy.action_masks import policy_leaves

ROWS, LENGTH, ACTIONS = 3, 6, 2
VECTOR = gymnasium.spaces.Box(-np.inf, np.inf, (5,))
IMAGE = gymnasium.spaces.Box(0, 255, (64, 48, 3), np.uint8)
BOTH = gymnasium.spaces.Dict(image=IMAGE, numbers=VECTOR)


def model_for(space: gymnasium.Space[object]) -> WorldModel:
    leaves = policy_leaves(space, gymnasium.spaces.Discrete(2), DreamerModelConfig(), normalize_observations=False)
    spec = WorldModelSpec(leaves, ACTIONS, 2, (8, 8), 6, 3, 4, 2, 15)
    with seeded(0):
        module = WorldModelParameters(spec)
    return WorldModel(spec, {name: parameter.detach() for name, parameter in module.named_parameters()})


def random_rows(model: WorldModel) -> tuple[Tensor, Tensor, Tensor, States, Tensor]:
    generator = torch.Generator().manual_seed(1)
    starts = torch.zeros(ROWS, LENGTH)
    starts[0, 3] = starts[1, 0] = 1.0
    return (
        torch.randn(ROWS, LENGTH, model.spec.embedding_width, generator=generator),
        torch.rand(ROWS, LENGTH, ACTIONS, generator=generator),
        starts,
        States(torch.randn(ROWS, 6, generator=generator), torch.rand(ROWS, 12, generator=generator)),
        torch.rand(ROWS, LENGTH, 3, generator=generator),
    )


def test_observing_all_steps_at_once_equals_observing_step_by_step() -> None:
    model = model_for(VECTOR)
    embedded, actions, starts, state, noise = random_rows(model)
    together, distributions = model.observe(embedded, actions, starts, state, noise)
    for t in range(LENGTH):
        one = slice(t, t + 1)
        found, own = model.observe(embedded[:, one], actions[:, one], starts[:, one], state, noise[:, one])
        state = States(found.recurrent[:, 0], found.latent[:, 0])
        torch.testing.assert_close(state.features, together.features[:, t])
        torch.testing.assert_close(own[:, 0], distributions[:, t])


def test_steps_before_an_episodes_start_do_not_affect_its_state() -> None:
    model = model_for(VECTOR)
    embedded, actions, starts, state, noise = random_rows(model)
    found, _ = model.observe(embedded, actions, starts, state, noise)
    embedded[0, :3] += 1.0
    actions[0, :4] = 0.0  # the action at a start belongs to the previous episode
    changed = States(state.recurrent + 1, state.latent + 1)
    other, _ = model.observe(embedded, actions, starts, changed, noise)
    torch.testing.assert_close(other.features[0, 3:], found.features[0, 3:])
    torch.testing.assert_close(other.features[1], found.features[1])
    assert not torch.allclose(other.features[2], found.features[2])


def test_latent_class_probabilities_contain_a_uniform_share_of_1_percent() -> None:
    model = model_for(VECTOR)
    logits = torch.tensor([[60.0, 0, 0, 0] * 3])
    torch.testing.assert_close(model.probabilities(logits)[0, 0], torch.tensor([0.9925, 0.0025, 0.0025, 0.0025]))


def test_latent_classes_are_drawn_with_the_frequencies_of_their_distribution() -> None:
    distribution = torch.tensor([0.1, 0.6, 0.0, 0.3])
    noise = (torch.arange(1000) + 0.5) / 1000
    assert drawn(distribution.expand(1000, 4), noise).sum(0).tolist() == [100, 600, 0, 300]


def test_gradients_of_latent_parts_go_straight_to_their_distributions() -> None:
    model = model_for(VECTOR)
    embedded, actions, starts, state, noise = random_rows(model)
    embedded.requires_grad_()
    found, distributions = model.observe(embedded, actions, starts, state, noise)
    assert set(found.latent.detach().round(decimals=4).unique().tolist()) == {0.0, 1.0}
    weights = torch.randn(ROWS, 12, generator=torch.Generator().manual_seed(2))
    (through,) = torch.autograd.grad((found.latent[:, -1] * weights).sum(), embedded, retain_graph=True)
    (direct,) = torch.autograd.grad((distributions[:, -1].flatten(1) * weights).sum(), embedded)
    torch.testing.assert_close(through, direct)


@pytest.mark.parametrize("space", [IMAGE, BOTH])
def test_decoded_images_have_the_shape_of_the_observed_ones(space: gymnasium.Space[object]) -> None:
    model = model_for(space)
    image = torch.randint(256, (2, 3, 64, 48, 3), dtype=torch.uint8)
    observations = image if space is IMAGE else {"image": image, "numbers": torch.randn(2, 3, 5)}
    embedded = model.encode(observations)
    assert embedded.shape == (2, 3, model.spec.embedding_width)
    (shown,) = model.pixels(observations)
    (decoded,) = model.decode_images(torch.randn(2, 3, model.spec.features))
    assert decoded.shape == shown.shape == (6, 3, 64, 48)
    torch.testing.assert_close(shown[4], image[1, 1].permute(2, 0, 1) / 255)


def test_model_sizes_increase_in_order_and_single_widths_can_be_overridden() -> None:
    widths = [DreamerModelConfig(size=size).widths for size in SIZES]
    assert widths == sorted(widths, key=lambda own: own.recurrent)
    own = DreamerModelConfig(size="nano", hiddens=(32, 32), latents=7).widths
    assert (own.hiddens, own.latents, own.classes, own.recurrent) == ((32, 32), 7, 4, 16)
