"""Many networks side by side: each row equals the output of its own network, whatever its position."""

from __future__ import annotations

import numpy as np
import pytest
from gymnasium import spaces

from rlrun.algorithms.evolution.actor_policy import ActorPolicy
from rlrun.algorithms.evolution.population_network import PopulationNetwork
from rlrun.engine.nn.model_config import ModelConfig
from rlrun.engine.policy.behavior import BehaviorPolicy
from tests.policies import plain_policy
from tests.rounding import rounding_error

SPACE = spaces.Box(-1.0, 1.0, (5,))


def acting_with_networks(policy: ActorPolicy, size: int) -> tuple[BehaviorPolicy, PopulationNetwork]:
    """Makes a policy's acting side with separate parameters for each env slot, and its networks."""
    behavior = policy.behavior()
    networks = PopulationNetwork(behavior.unmasked_network, size)
    return behavior.with_network(networks), networks


@pytest.mark.parametrize(
    "model",
    [
        {"hiddens": ()},
        {"hiddens": (16, 8)},
        {"hiddens": (8,), "core": "gru"},
        {"hiddens": (8,), "normalization": "layer"},
    ],
)
def test_each_env_slot_acts_with_its_own_parameters(model: dict[str, object]) -> None:
    policy = plain_policy(ActorPolicy, SPACE, spaces.Discrete(3), ModelConfig.parse(model), seed=0)
    generator = np.random.default_rng(0)
    parameters = generator.standard_normal((4, policy.num_parameters), np.float32)
    observations = generator.standard_normal((2, 4, 5), np.float32)
    together, networks = acting_with_networks(policy, 4)
    for slot in range(4):
        networks.load_one(slot, parameters[slot])
    found = [together.outputs(observations[t]) for t in range(2)]
    for slot in range(4):
        alone = policy.behavior()
        alone.network.load(parameters[slot])
        for t in range(2):
            expected = alone.outputs(observations[t, slot : slot + 1])
            np.testing.assert_allclose(
                found[t][slot : slot + 1], expected, atol=rounding_error(5 + 16 + 8, size=float(np.abs(expected).max()))
            )


def test_a_networks_outputs_do_not_depend_on_its_slot_or_neighbors() -> None:
    policy = plain_policy(ActorPolicy, SPACE, SPACE, ModelConfig(hiddens=(64, 64)), seed=0)
    generator = np.random.default_rng(1)
    parameters = generator.standard_normal((7, policy.num_parameters), np.float32)
    observations = generator.standard_normal((7, 5), np.float32)

    def outputs(order: list[int]) -> dict[int, bytes]:
        behavior, networks = acting_with_networks(policy, len(order))
        for slot, which in enumerate(order):
            networks.load_one(slot, parameters[which])
        found = behavior.outputs(observations[order])
        return {which: found[slot].tobytes() for slot, which in enumerate(order)}

    everyone = outputs([0, 1, 2, 3, 4, 5, 6])
    assert outputs([6, 2, 4, 0, 5, 1, 3]) == everyone
    assert outputs([3]).items() <= everyone.items()
