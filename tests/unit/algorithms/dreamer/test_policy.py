"""DreamerV3's policy: which reward belongs to which observation, and acting equals learning."""

from __future__ import annotations

import pickle
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch

from rlrun.algorithms.dreamer.dreamer import DreamerConfig
from rlrun.algorithms.dreamer.model_config import DreamerModelConfig
from rlrun.algorithms.dreamer.networks import DreamerNetworks
from rlrun.algorithms.dreamer.policy import DreamerPolicy
from rlrun.algorithms.dreamer.world_model import States
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.messages.errors import UsageError
from rlrun.engine.nn.observation_leaves import described_leaves
from rlrun.engine.policy.behavior import BehaviorPolicy
from rlrun.engine.policy.weights import Weights
from tests.policies import policy_from
from tests.rounding import rounding_error

VECTOR = gymnasium.spaces.Box(-np.inf, np.inf, (3,))
IMAGE = gymnasium.spaces.Box(0, 255, (48, 48), np.uint8)
BOTH = gymnasium.spaces.Dict(image=IMAGE, where=gymnasium.spaces.Discrete(4))
CHOICES = gymnasium.spaces.Discrete(3, start=5)
BOX = gymnasium.spaces.Box(-2.0, 2.0, (2,))
SUMS = 16 * (1 + 2 + 4 + 8) + 16 + 6 + 12  # four convolutions, the hidden layers, and both parts of the state


def policy_for(observations: gymnasium.Space[Any] = VECTOR, actions: gymnasium.Space[Any] = CHOICES) -> DreamerPolicy:
    model = DreamerModelConfig(size="nano", latents=3, classes=4, recurrent_width=6)
    policy = policy_from(DreamerPolicy, DreamerConfig, observations, actions, model, num_bins=15, horizon=4, seed=0)
    generator = torch.Generator().manual_seed(0)
    for parameter in policy.module.parameters():
        parameter.data += 0.1 * torch.randn(parameter.shape, generator=generator)
    return policy


def networks_of(policy: DreamerPolicy) -> DreamerNetworks:
    views = policy.parameters.views(policy.parameters.gather(policy.module))
    return policy.outputs(views, SampleBatch())


def acting(policy: DreamerPolicy) -> BehaviorPolicy:
    behavior = pickle.loads(pickle.dumps(policy.behavior()))
    start, size = policy.acting_range
    behavior.load(Weights(0, policy.parameters.gather(policy.module).numpy()[start : start + size]))
    return behavior


def drawn_observations(space: gymnasium.Space[Any], length: int, slots: int) -> Any:
    drawn = np.random.default_rng(1)
    if isinstance(space, gymnasium.spaces.Dict):
        return {key: drawn_observations(part, length, slots) for key, part in space.items()}
    if isinstance(space, gymnasium.spaces.Discrete):
        return drawn.integers(space.n, size=(length, slots))
    if space.dtype == np.uint8:
        return drawn.integers(256, size=(length, slots, *space.shape), dtype=np.uint8)
    return drawn.normal(size=(length, slots, *space.shape)).astype(np.float32)


def test_rewards_and_terminations_are_aligned_with_the_observation_they_lead_to() -> None:
    # An episode begins in row 1 and terminates with the step in row 2; row 3 is its final observation.
    batch = SampleBatch(
        valid=torch.tensor([[True, True, True, False, True]]),
        rewards=torch.tensor([[1.0, 2.0, 3.0, 99.0, 5.0]]),
        discounts=torch.tensor([[0.9, 0.9, 0.0, 0.9, 0.9]]),
        actions=torch.tensor([[0, 1, 2, 1, 0]]),
        episode_starts=torch.tensor([[False, True, False, False, True, False]]),
        state=torch.cat([torch.zeros(1, 18), torch.tensor([[0.0, 1.0, 0.0]])], 1),
    )
    rows = networks_of(policy_for()).rows(batch)
    assert rows.counts.tolist() == [[1, 1, 1, 1, 1, 1]]
    assert rows.is_behind.tolist() == [[0, 1, 1, 1, 0, 1]]
    assert rows.rewards.tolist() == [[0, 1, 2, 3, 0, 5]]
    assert rows.continues.tolist() == [[1, 1, 1, 0, 1, 1]]
    taken = [1, 0, 1, 2, None, 0]  # the first action comes from the stored state; row 3 is not a step
    assert rows.actions[0].tolist() == [[float(i == own) for i in range(3)] for own in taken]


def test_rows_without_a_valid_step_or_final_observation_are_not_counted() -> None:
    batch = SampleBatch(
        valid=torch.tensor([[False, True, False]]),
        rewards=torch.zeros(1, 3),
        discounts=torch.ones(1, 3),
        actions=torch.zeros(1, 3, dtype=torch.int64),
        episode_starts=torch.tensor([[False, True, False, False]]),
        state=torch.zeros(1, 21),
    )
    assert networks_of(policy_for()).rows(batch).counts.tolist() == [[0, 1, 1, 0]]


@pytest.mark.parametrize("actions", [CHOICES, BOX])
@pytest.mark.parametrize("space", [VECTOR, BOTH])
def test_acting_and_learning_compute_the_same_states_and_outputs(
    space: gymnasium.Space[Any], actions: gymnasium.Space[Any]
) -> None:
    policy, length, slots = policy_for(space, actions), 12, 4
    behavior, networks = acting(policy), networks_of(policy)
    observations = drawn_observations(space, length, slots)
    noise = behavior.noise_source.noise(np.random.default_rng(2), length, slots)
    starts = np.zeros((length, slots), np.bool_)
    starts[0] = starts[5, 1] = starts[9, 3] = True
    record = behavior.collector.allocate(length, slots)
    states = []
    for t in range(length):
        seen = {key: leaf[t] for key, leaf in observations.items()} if space is BOTH else observations[t]
        acted = behavior.act(seen, noise[t], record, t, starts[t])
        assert all(actions.contains(each) for each in acted)
        states.append(behavior.memory.state()["recurrent_state"])

    def rows(leaf: Any) -> Any:
        return torch.from_numpy(np.ascontiguousarray(np.moveaxis(leaf, 0, 1)))

    tree = {key: rows(leaf) for key, leaf in observations.items()} if space is BOTH else rows(observations)
    model, recorded = networks.model, networks.actions.recorded(rows(record["actions"]))
    taken = torch.cat([torch.zeros_like(recorded[:, :1]), recorded[:, :-1]], 1)
    first = States(torch.zeros(slots, 6), torch.zeros(slots, 12))
    found, _ = model.observe(model.encode(tree), taken, rows(starts).float(), first, rows(noise[..., :3]))
    expected = np.moveaxis(np.array(states), 0, 1)
    np.testing.assert_allclose(found.features.numpy(), expected[..., :18], atol=rounding_error(SUMS))
    np.testing.assert_allclose(recorded.numpy(), expected[..., 18:], atol=rounding_error(2))
    raw = model.head("actor", found.features)
    np.testing.assert_allclose(
        networks.actions.outputs_of(raw).numpy(), networks.actions.outputs(raw.numpy()), atol=rounding_error(SUMS)
    )
    assert record["state"].shape == (length, slots, policy.spec.state_size)
    np.testing.assert_array_equal(record["state"][1], np.where(starts[1][:, None], 0, states[0]))


def test_greedy_evaluation_is_deterministic_and_sampled_evaluation_is_not() -> None:
    policy = policy_for()
    observations = drawn_observations(VECTOR, 1, 64)[0]

    def actions(generator: np.random.Generator | None) -> list[int]:
        behavior = acting(policy)
        behavior.begin_episodes(np.ones(64, np.bool_))
        chosen: list[int] = behavior.actions(observations, generator).tolist()
        return chosen

    assert actions(None) == actions(None)
    assert set(actions(np.random.default_rng(0))) == {5, 6, 7}


def test_the_memory_holds_the_executed_actions_instead_of_the_chosen_ones() -> None:
    behavior = acting(policy_for())
    behavior.begin_episodes(np.ones(2, np.bool_))
    behavior.actions(drawn_observations(VECTOR, 1, 2)[0], None)
    before = behavior.memory.state()["recurrent_state"]
    behavior.take_actions(np.array([5, 7]))
    after = behavior.memory.state()["recurrent_state"]
    np.testing.assert_array_equal(after[:, :18], before[:, :18])
    assert after[:, 18:].tolist() == [[1, 0, 0], [0, 0, 1]]


def test_imagination_starts_from_the_given_states_and_passes_no_gradients_to_them() -> None:
    policy = policy_for(actions=BOX)
    networks = networks_of(policy)
    noise = policy.draws(np.random.default_rng(0), 5, 2)
    assert noise["latent_noise"].shape == (5, 3, 3)
    features = torch.rand(15, 18, requires_grad=True)
    drawn = [torch.from_numpy(noise[name]).flatten(0, 1) for name in ("imagined_noise", "action_noise")]
    imagined = networks.imagine(features, *drawn)
    assert imagined.features.shape == (15, 5, 18)
    assert imagined.actions.shape == (15, 4, 2)
    assert imagined.rewards.shape == imagined.continues.shape == (15, 4)
    assert not imagined.features.requires_grad
    torch.testing.assert_close(imagined.features[:, 0], features.detach())
    state = States(imagined.features[:, 1, :6], imagined.features[:, 1, 6:])
    following = networks.model.imagine(state, imagined.actions[:, 1].clamp(-1, 1), drawn[0][:, 1])
    torch.testing.assert_close(following.features, imagined.features[:, 2])


@pytest.mark.parametrize(
    ("space", "actions", "message"),
    [
        (
            VECTOR,
            gymnasium.spaces.MultiDiscrete([2, 2]),
            "dreamer needs a Discrete or bounded Box action space, but this env has",
        ),
        (VECTOR, gymnasium.spaces.Box(-np.inf, np.inf, (1,)), "finite bounds"),
        (gymnasium.spaces.Box(0, 255, (84, 84, 3), np.uint8), CHOICES, "multiples of 16.*not 84x84"),
        (
            gymnasium.spaces.Dict(x=VECTOR, action_mask=gymnasium.spaces.MultiBinary(3)),
            gymnasium.spaces.Discrete(3),
            "does not support action masks",
        ),
    ],
)
def test_spaces_that_a_world_model_cannot_handle_are_refused(
    space: gymnasium.Space[Any], actions: gymnasium.Space[Any], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        policy_for(space, actions)


def test_the_plan_says_that_images_use_dreamers_own_convolutions(wording) -> None:
    said = dict(described_leaves(policy_for(BOTH).leaves))
    assert said["image"] == wording("255")
