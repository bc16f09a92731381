"""How an algorithm makes its policy."""

from __future__ import annotations

from typing import Any

import pytest
from gymnasium.spaces import Box, Discrete

from rlrun.algorithms.ppo import PPO
from rlrun.envs.spaces import Spaces
from rlrun.errors import UsageError
from rlrun.policy.actor_critic import ActorCriticPolicy
from rlrun.worlds.world_view import WorldView

SPACES = Spaces(Box(-1.0, 1.0, (2,)), Discrete(2))


class FormerPolicy(ActorCriticPolicy):
    """A policy with the arguments that policies once had."""

    def __init__(
        self, observation_space: Any, action_space: Any, model: Any, *, normalize_observations: bool, seed: int
    ) -> None:
        raise AssertionError("it is refused before it is made")


class PolicyInWorlds(ActorCriticPolicy):
    """A policy that looks at its world."""

    def __init__(self, spaces: Spaces, config: Any, seed: int, world: WorldView) -> None:
        super().__init__(spaces, config, seed)
        self.world = world


class PPOOfFormerPolicy(PPO):
    policy_family = f"{__name__}:FormerPolicy"


class PPOInWorlds(PPO):
    policy_family = f"{__name__}:PolicyInWorlds"


def test_a_policy_family_of_the_former_arguments_is_told_the_present_ones() -> None:
    with pytest.raises(UsageError) as refused:
        PPOOfFormerPolicy(PPO.Config()).policy(SPACES, 0)
    message = str(refused.value)
    assert message.startswith(
        f"the policy family {__name__}:FormerPolicy must be made from (spaces, config, seed), and"
    )
    assert message.endswith("write def __init__(self, spaces, config, seed)")


def test_a_policy_family_that_needs_its_world_is_given_it() -> None:
    world = WorldView(None, 3, "parallel")
    policy = PPOInWorlds(PPO.Config()).family_policy(SPACES, 0, world)
    assert isinstance(policy, PolicyInWorlds)
    assert policy.world is world
    with pytest.raises(UsageError, match="missing a required argument: 'world'"):
        PPOInWorlds(PPO.Config()).policy(SPACES, 0)
