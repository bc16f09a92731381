"""How an algorithm makes its policy."""

from __future__ import annotations

from typing import Any

import pytest
from gymnasium.spaces import Box, Discrete

from rlrun.algorithms.ppo import PPO
from rlrun.engine.envs.spaces import Spaces
from rlrun.engine.messages.errors import UsageError
from rlrun.engine.policy.actor_critic import ActorCriticPolicy
from rlrun.engine.worlds.world_view import WorldView

SPACES = Spaces(Box(-1.0, 1.0, (2,)), Discrete(2))


class PolicyOfOtherArguments(ActorCriticPolicy):
    """A policy with arguments other than those an algorithm passes."""

    def __init__(
        self, observation_space: Any, action_space: Any, model: Any, *, normalize_observations: bool, seed: int
    ) -> None:
        raise AssertionError("it is refused before it is made")


class PolicyInWorlds(ActorCriticPolicy):
    """A policy that looks at its world."""

    def __init__(self, spaces: Spaces, config: Any, seed: int, world: WorldView) -> None:
        super().__init__(spaces, config, seed)
        self.world = world


class PPOOfOtherArguments(PPO):
    policy_family = f"{__name__}:PolicyOfOtherArguments"


class PPOInWorlds(PPO):
    policy_family = f"{__name__}:PolicyInWorlds"


def test_a_policy_family_with_a_wrong_signature_is_refused_with_the_expected_signature(wording) -> None:
    with pytest.raises(UsageError) as refused:
        PPOOfOtherArguments(PPO.Config()).policy(SPACES, 0)
    message = str(refused.value)
    assert message == wording(__name__, "PolicyOfOtherArguments")
    assert message == wording("init__")


def test_a_policy_family_that_needs_the_world_receives_it(wording) -> None:
    world = WorldView(None, 3, "parallel")
    policy = PPOInWorlds(PPO.Config()).family_policy(SPACES, 0, world)
    assert isinstance(policy, PolicyInWorlds)
    assert policy.world is world
    with wording.raised(UsageError, "world"):
        PPOInWorlds(PPO.Config()).policy(SPACES, 0)
