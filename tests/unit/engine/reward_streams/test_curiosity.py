"""Outputs of curiosity's networks for steps, in closed form, and their place next to the actor-critic."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary
from torch import Tensor

from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.data.tree import map_tree
from rlrun.engine.messages.errors import UsageError
from rlrun.engine.nn.model_config import ModelConfig
from rlrun.engine.policy.actor_critic import ActorCriticPolicy
from rlrun.engine.policy.weights import Weights
from rlrun.engine.reward_streams.curiosity import CuriousPolicy, StateEntropy
from rlrun.engine.reward_streams.rewarding_policy import ACTOR_CRITIC
from rlrun.engine.reward_streams.settings import CuriosityConfig
from tests.policies import plain_policy
from tests.rounding import rounding_error

SEEN, CHOICES = Box(-1.0, 1.0, (3,)), Discrete(3)


def policy_for(
    actions: gymnasium.Space[Any] = CHOICES,
    observations: gymnasium.Space[Any] = SEEN,
    views: dict[str, int] | None = None,
    **settings: Any,
) -> CuriousPolicy:
    config = CuriosityConfig.parse({"hiddens": [8], "features": 4, **settings})
    model = ModelConfig.parse({"hiddens": (8,), "views": views or {}})
    alone = plain_policy(ActorCriticPolicy, observations, actions, model, seed=1, value_heads=("intrinsic",))
    return CuriousPolicy(alone, observations, actions, config, seed=1)


def random_transitions(actions: Any, number: int = 6) -> SampleBatch:
    draws = np.random.default_rng(0)
    return SampleBatch(
        curiosity_obs=torch.from_numpy(draws.normal(size=(number, 1, 3)).astype(np.float32)),
        curiosity_next_obs=torch.from_numpy(draws.normal(size=(number, 1, 3)).astype(np.float32)),
        actions=torch.as_tensor(actions),
        valid=torch.ones((number, 1), dtype=torch.bool),
    )


def outputs_of(policy: CuriousPolicy, batch: SampleBatch) -> Any:
    return policy.outputs(policy.parameters.views(policy.parameters.gather(policy.module)), batch)


def features_of(policy: CuriousPolicy, name: str, **inputs: Any) -> Tensor:
    heads, _ = policy.novelty.networks[name](inputs)
    features: Tensor = heads["features"]
    return features


def test_rnd_rewards_are_the_error_in_predicting_the_output_of_a_random_network() -> None:
    policy, batch = policy_for(), random_transitions(np.zeros((6, 1), np.int64))
    known, target = (
        features_of(policy, name, obs=batch["curiosity_next_obs"]) for name in ("learned.predictor", "fixed.target")
    )
    expected = (known - target).square().mean(-1)
    outputs = outputs_of(policy, batch)
    torch.testing.assert_close(outputs.intrinsic_rewards(), expected)
    torch.testing.assert_close(outputs.novelty_losses(), expected)
    assert expected.min() > 0  # the two networks have different initial weights


def test_no_loss_changes_the_random_network() -> None:
    policy, batch = policy_for(), random_transitions(np.zeros((6, 1), np.int64))
    flat = policy.parameters.gather(policy.module).requires_grad_()
    policy.outputs(policy.parameters.views(flat), batch).novelty_losses().sum().backward()
    assert flat.grad is not None
    start, size = policy.parameters.range_under("fixed.")
    assert not flat.grad[start : start + size].any()
    start, size = policy.parameters.range_under("learned.predictor.")
    assert flat.grad[start : start + size].any()
    start, size = policy.parameters.range_under(policy.descended)
    assert not flat.grad[start : start + size].any()


@pytest.mark.parametrize("kind", ["discrete", "box"])
def test_icm_rewards_are_forward_prediction_errors_and_its_loss_adds_action_prediction(kind: str) -> None:
    space = Discrete(3) if kind == "discrete" else Box(-1.0, 1.0, (2,))
    taken = np.array([[0], [2], [1], [0], [1], [2]])
    acted = taken if kind == "discrete" else np.random.default_rng(1).normal(size=(6, 1, 2)).astype(np.float32)
    policy, batch = policy_for(space, kind="icm", forward_weight=0.25), random_transitions(acted)
    now, behind = (
        features_of(policy, "learned.features", obs=batch[f"curiosity_{what}"]) for what in ("obs", "next_obs")
    )
    given = torch.from_numpy(np.eye(3, dtype=np.float32)[taken]) if kind == "discrete" else batch["actions"]
    foreseen = features_of(policy, "learned.forward_model", obs=now, actions=given)
    forward = 0.5 * (foreseen - behind).square().mean(-1)
    told = features_of(policy, "learned.inverse_model", obs={"now": now, "next": behind})
    if kind == "discrete":
        inverse = torch.nn.functional.cross_entropy(told.flatten(0, 1), batch["actions"].flatten(), reduction="none")
        inverse = inverse.view(6, 1)
    else:
        inverse = 0.5 * (told - batch["actions"]).square().mean(-1)
    outputs = outputs_of(policy, batch)
    torch.testing.assert_close(outputs.intrinsic_rewards(), forward)
    torch.testing.assert_close(outputs.novelty_losses(), 0.75 * inverse + 0.25 * forward)


def test_icm_refuses_unsupported_action_spaces(wording) -> None:
    with wording.raised(UsageError):
        policy_for(MultiBinary(3), kind="icm")


def test_re3_rewards_grow_with_the_distance_to_the_kth_nearest_neighbor() -> None:
    policy, batch = policy_for(kind="re3", num_neighbours=2), random_transitions(np.zeros((6, 1), np.int64))
    batch["valid"][4] = False
    found = outputs_of(policy, batch).intrinsic_rewards()[:, 0]
    features = features_of(policy, "fixed.encoder", obs=batch["curiosity_next_obs"])[:, 0].detach().numpy()
    others = [0, 1, 2, 3, 5]
    for i in others:
        distances = sorted(np.linalg.norm(features[i] - features[j]) for j in others if j != i)
        assert float(found[i].detach()) == pytest.approx(np.log1p(distances[1]), rel=rounding_error(3 + 8 + 4))


def test_re3_distinguishes_large_features_that_are_close_together() -> None:
    novelty = policy_for(kind="re3", num_neighbours=1).novelty
    assert isinstance(novelty, StateEntropy)
    features = torch.from_numpy(np.random.default_rng(0).normal(5000.0, 0.1, (6, 32)).astype(np.float32))
    valid = torch.tensor([True, True, True, False, True, True])
    features[3] = 1e9  # the features of an empty row
    found = novelty._distances(features, valid)[valid].numpy()
    own = features[valid].double().numpy()
    distances = np.linalg.norm(own[:, None] - own, axis=-1)
    np.testing.assert_allclose(found, np.sort(distances, axis=1)[:, 1], rtol=1e-4)


def test_re3_rewards_are_zero_if_there_are_too_few_neighbors() -> None:
    policy, batch = policy_for(kind="re3", num_neighbours=3), random_transitions(np.zeros((6, 1), np.int64))
    batch["valid"][2:] = False
    assert not outputs_of(policy, batch).intrinsic_rewards()[:2].any()


@pytest.mark.parametrize("kind", ["rnd", "icm", "re3"])
def test_a_policy_with_curiosity_acts_exactly_like_its_actor_critic_alone(kind: str) -> None:
    policy = policy_for(kind=kind)
    start, size = policy.acting_range
    flat = policy.parameters.gather(policy.module).numpy()[start : start + size]
    assert all(slot.name.startswith(ACTOR_CRITIC) for slot in policy.parameters.slots if slot.offset < size)
    behaviors = [policy.behavior(), policy.actor_critic.behavior()]
    seen = np.random.default_rng(2).normal(size=(5, 3)).astype(np.float32)
    for behavior in behaviors:
        behavior.load(Weights(0, flat))
    np.testing.assert_array_equal(behaviors[0].outputs(seen), behaviors[1].outputs(seen))


@pytest.mark.parametrize("kind", ["rnd", "icm", "re3"])
@pytest.mark.parametrize(
    "views",
    [{"obs": 3}, {"prev_actions": 1}, {"prev_rewards": 2}, {"obs": 3, "prev_actions": 2, "prev_rewards": 1}],
    ids=lambda views: ", ".join(views),
)
def test_intrinsic_rewards_do_not_depend_on_the_views_of_the_policy(kind: str, views: dict[str, int]) -> None:
    viewed, plain = policy_for(views=views, kind=kind), policy_for(kind=kind)
    assert viewed.leaves != plain.leaves
    assert viewed.novelty_leaves == plain.novelty_leaves
    batch = random_transitions(np.array([[0], [2], [1], [0], [1], [2]]))
    found, expected = (outputs_of(policy, batch).intrinsic_rewards() for policy in (viewed, plain))
    torch.testing.assert_close(found, expected, rtol=0, atol=0)
    assert expected.any()


def test_all_parts_of_the_observation_except_the_action_mask_are_novelty_inputs() -> None:
    space = Dict(position=Box(-1.0, 1.0, (2,)), kind=Discrete(4), action_mask=MultiBinary(3))
    leaves = policy_for(observations=space).novelty_leaves
    assert map_tree(lambda leaf: leaf.is_normalized, leaves) == {"kind": False, "position": True}
