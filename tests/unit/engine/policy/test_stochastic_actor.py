"""Policies without values act and learn like the policy of an actor-critic with the same parameters."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Space, Tuple
from torch import Tensor

from rlrun import PPO
from rlrun.engine.data.learning_rows import whole_fragment_rows
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.data.tree import map_tree
from rlrun.engine.envs.spaces import Spaces
from rlrun.engine.messages.errors import UsageError
from rlrun.engine.nn.model_config import ModelConfig
from rlrun.engine.policy.actor_critic import ActorCriticPolicy
from rlrun.engine.policy.behavior import BehaviorPolicy
from rlrun.engine.policy.policy import Policy
from rlrun.engine.policy.stochastic_actor import StochasticActorPolicy
from rlrun.engine.policy.weights import Weights
from tests.policies import plain_policy
from tests.rounding import rounding_error

LENGTH, SLOTS = 8, 3
NUMBERS, IMAGES = Box(-1, 1, (3,)), Box(0, 255, (36, 36, 1), np.uint8)
MASKED = Dict({"action_mask": MultiBinary(4), "seen": NUMBERS})
LISTED = Dict({"actions": Box(-1, 1, (4, 2)), "seen": NUMBERS})
MIXED = Dict({"kind": Discrete(3), "force": Box(-2, 2, (2,)), "parts": Tuple([MultiBinary(2), Discrete(2, start=1)])})
NEAR = rounding_error(64 + 512 + 576 + 64 + 256 + 8)  # number of inputs to all layers, including convolutions

KINDS: dict[str, tuple[Space[Any], Space[Any], dict[str, Any]]] = {
    "choices": (NUMBERS, Discrete(4), {}),
    "masks": (MASKED, Discrete(4), {}),
    "box": (NUMBERS, Box(-2, 2, (2,)), {}),
    "mixed": (NUMBERS, MIXED, {}),
    "in order": (NUMBERS, MultiDiscrete([3, 2]), {"autoregressive": True}),
    "listed actions": (LISTED, Discrete(4), {"action_embeddings": "actions"}),
    "state-dependent noise": (NUMBERS, Box(-2, 2, (2,)), {"use_sde": True}),
    "images": (IMAGES, Discrete(4), {}),
    "views": (NUMBERS, Discrete(4), {"views": {"prev_actions": 1, "obs": 2}}),
    "gru": (NUMBERS, MIXED, {"core": "gru", "core_width": 6}),
    "transformer": (NUMBERS, Discrete(4), {"core": "gtrxl", "core_width": 8, "gtrxl": {"memory_len": 3}}),
}
every_kind = pytest.mark.parametrize("kind", KINDS)


def pair_of(kind: str) -> tuple[StochasticActorPolicy, ActorCriticPolicy]:
    """Returns a policy without values, and an actor-critic of the same settings."""
    observation, action, model = KINDS[kind]
    settings = ModelConfig.parse({"hiddens": [8], "shared_value": False, **model})
    return (
        plain_policy(StochasticActorPolicy, observation, action, settings, seed=5),
        plain_policy(ActorCriticPolicy, observation, action, settings, seed=5),
    )


def same_parameters(alone: Policy, actor_critic: Policy) -> tuple[np.ndarray, np.ndarray]:
    """Returns random parameters of the actor-critic, and the policy's part of them."""
    flat = np.random.default_rng(0).normal(0, 0.5, actor_critic.parameters.size).astype(np.float32)
    named = actor_critic.parameters.named(flat)
    return alone.parameters.from_named({slot.name: named[slot.name] for slot in alone.parameters.slots}), flat


def fragment_of(policy: Policy, flat: np.ndarray, space: Space[Any]) -> SampleBatch:
    """Acts for a fragment of one episode in every slot."""
    behavior: BehaviorPolicy = pickle.loads(pickle.dumps(policy.behavior()))
    behavior.load(Weights(0, flat))
    space.seed(0)
    drawn = [[space.sample() for _ in range(SLOTS)] for _ in range(LENGTH + 1)]
    observations = map_tree(lambda *cells: np.stack(cells), *[map_tree(lambda *x: np.stack(x), *row) for row in drawn])
    if isinstance(observations, dict) and "action_mask" in observations:
        observations["action_mask"][..., 0] = 1  # something is always allowed
    noise, batch = (
        behavior.noise_source.noise(np.random.default_rng(0), LENGTH, SLOTS),
        behavior.collector.allocate(LENGTH, SLOTS),
    )
    none = np.zeros(SLOTS, np.bool_)
    for t in range(LENGTH):
        behavior.act(map_tree(lambda leaf, t=t: leaf[t], observations), noise[t], batch, t, none | (t == 0))
    behavior.collector.close(batch, none, ~none)
    batch["obs"] = observations
    batch["valid"] = np.ones((LENGTH, SLOTS), np.bool_)
    batch["terminateds"] = batch["truncateds"] = np.zeros((LENGTH, SLOTS), np.bool_)
    behavior.collector.postprocess(batch)
    return batch


def log_probs(policy: StochasticActorPolicy | ActorCriticPolicy, flat: np.ndarray, fragment: SampleBatch) -> Tensor:
    """The learner's log-probabilities of a fragment's actions, [S, L]."""
    rows = whole_fragment_rows(fragment).map(torch.as_tensor)
    outputs = policy.outputs(policy.parameters.views(torch.from_numpy(flat)), rows)
    return outputs.distribution.log_prob(rows["actions"])[:, :LENGTH]


@every_kind
def test_a_stochastic_actor_samples_the_same_actions_with_the_same_log_probs_as_an_actor_critic(kind: str) -> None:
    alone, actor_critic = pair_of(kind)
    own, all_of_them = same_parameters(alone, actor_critic)
    space = KINDS[kind][0]
    fragment, expected = fragment_of(alone, own, space), fragment_of(actor_critic, all_of_them, space)
    np.testing.assert_array_equal(fragment["actions"], expected["actions"])
    assert not {"logp", "values", "outputs"} & fragment.keys()
    found, other = log_probs(alone, own, fragment), log_probs(actor_critic, all_of_them, expected)
    torch.testing.assert_close(found, other)
    recorded = torch.from_numpy(np.moveaxis(expected["logp"], 0, 1))
    torch.testing.assert_close(found, recorded, rtol=NEAR, atol=NEAR)


@every_kind
def test_a_stochastic_actor_has_an_actor_critics_parameters_without_the_value_layers(kind: str) -> None:
    alone, actor_critic = pair_of(kind)
    own, others = ([(slot.name, slot.shape) for slot in each.parameters.slots] for each in (alone, actor_critic))
    assert own == [(name, shape) for name, shape in others if "value_" not in name]
    assert len(own) < len(others)
    assert alone.acting_range == (0, alone.parameters.size)


def test_rows_without_a_recorded_recurrent_state_start_from_a_zero_state() -> None:
    alone, _ = pair_of("gru")
    flat = np.random.default_rng(0).normal(size=alone.parameters.size).astype(np.float32)
    rows = whole_fragment_rows(fragment_of(alone, flat, NUMBERS)).map(torch.as_tensor)
    assert not rows["state"].any()
    views = alone.parameters.views(torch.from_numpy(flat))
    expected = alone.outputs(views, rows).distribution.outputs
    stateless = SampleBatch({name: column for name, column in rows.items() if name != "state"})
    assert torch.equal(alone.outputs(views, stateless).distribution.outputs, expected)


def test_a_custom_network_for_a_stochastic_actor_must_return_only_distribution_outputs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wording
) -> None:
    (tmp_path / "nets_without_values.py").write_text(
        "from torch import nn\n\n\n"
        "class Net(nn.Linear):\n"
        "    def __init__(self, observation_space, num_outputs, model):\n"
        "        super().__init__(observation_space.shape[0], num_outputs)\n\n\n"
        "class WithValues(Net):\n"
        "    def forward(self, x):\n"
        "        return super().forward(x), x[:, 0]\n"
    )
    monkeypatch.syspath_prepend(tmp_path)

    def policy_of(name: str) -> StochasticActorPolicy:
        model = ModelConfig(module=f"nets_without_values:{name}")
        return plain_policy(StochasticActorPolicy, NUMBERS, Discrete(4), model, seed=5)

    policy = policy_of("Net")
    behavior = policy.behavior()
    behavior.load(Weights(0, policy.parameters.gather(policy.module).numpy()))
    observations = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)
    expected = policy.module(torch.from_numpy(observations)).detach()
    np.testing.assert_allclose(behavior.outputs(observations), expected, atol=rounding_error(3))
    with wording.raised(UsageError):
        policy_of("WithValues")


def test_state_dependent_noise_is_refused_for_discrete_actions() -> None:
    with pytest.raises(UsageError, match=r"model\.use_sde"):
        plain_policy(StochasticActorPolicy, NUMBERS, Discrete(4), ModelConfig(use_sde=True))


def test_algorithms_select_the_policy_family_by_name() -> None:
    class WithoutValues(PPO):
        policy_family = "rlrun.engine.policy.stochastic_actor:StochasticActorPolicy"

    policy = WithoutValues(PPO.Config()).policy(Spaces(NUMBERS, Discrete(4)), 0)
    assert isinstance(policy, StochasticActorPolicy)
