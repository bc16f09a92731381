"""Gymnasium envs whose spaces have a part for each agent, as worlds."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete, Tuple

from rlrun.engine.envs.env_config import EnvConfig
from rlrun.engine.messages.errors import EnvironmentUnusable, UsageError
from rlrun.engine.worlds.joint_envs import JointEnv
from rlrun.engine.worlds.make_worlds import make_world


class Doors(gymnasium.Env[Any, Any]):
    """Each of two agents sees its own number and is paid its action times that number; three steps."""

    def __init__(self, *, width: int = 1, cut_off: bool = False) -> None:
        self.observation_space = Tuple([Box(0.0, 1.0, (width,)), Box(0.0, 2.0, (width + 1,))])
        self.action_space = Tuple([Discrete(2), Discrete(3)])
        self.cut_off = cut_off

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.time = 0
        return self._seen(), {}

    def step(self, actions: tuple[int, int]) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        paid = [float(action * seen[0]) for action, seen in zip(actions, self.seen, strict=True)]
        self.time += 1
        over = self.time == 3
        return self._seen(), paid, over and not self.cut_off, over and self.cut_off, {}

    def _seen(self) -> tuple[Any, ...]:
        self.seen = tuple(self.np_random.random(space.shape, np.float32) for space in self.observation_space)
        return self.seen


DOORS = f"{__name__}:Doors"


def world_of(**kwargs: Any) -> JointEnv:
    return JointEnv(DOORS, kwargs)


def test_each_agent_of_a_joint_env_has_its_own_part_of_observations_actions_and_rewards() -> None:
    world = world_of()
    assert world.possible_agents == ("agent_0", "agent_1")
    assert world.spaces("agent_1").action == Discrete(3)
    shown = world.reset(5)
    env = Doors()
    (first, second), _ = env.reset(seed=5)
    np.testing.assert_array_equal(shown["agent_0"], first)
    np.testing.assert_array_equal(shown["agent_1"], second)
    step = world.step({"agent_1": 2, "agent_0": 1})
    observations, rewards, _, _, _ = env.step((1, 2))
    np.testing.assert_array_equal(step.observations["agent_1"], observations[1])
    assert step.rewards == {"agent_0": rewards[0], "agent_1": rewards[1]}
    assert not step.ended


def test_the_world_state_of_a_joint_env_consists_of_all_agents_observations() -> None:
    world = world_of()
    shown = world.reset(0)
    assert world.state_space == Box(np.float32([0, 0, 0]), np.float32([1, 2, 2]))
    np.testing.assert_array_equal(world.state(), np.concatenate([shown["agent_0"], shown["agent_1"]]))


@pytest.mark.parametrize("cut_off", [False, True])
def test_all_agents_terminate_or_are_truncated_when_the_joint_env_is(cut_off: bool) -> None:
    world = world_of(cut_off=cut_off)
    world.reset(0)
    steps = [world.step({"agent_0": 0, "agent_1": 0}) for _ in range(3)]
    assert [step.ended for step in steps] == [False, False, True]
    everybody = {"agent_0": True, "agent_1": True}
    assert (steps[-1].terminateds, steps[-1].truncateds) == (({}, everybody) if cut_off else (everybody, {}))


def test_a_single_agent_env_is_refused() -> None:
    with pytest.raises(EnvironmentUnusable, match="CartPole-v1 is not a multi-agent env"):
        JointEnv("CartPole-v1")


def test_an_unknown_env_id_among_the_arguments_suggests_the_closest_one(wording) -> None:
    config = EnvConfig(world="rlrun.plugin:JointEnv", kwargs={"env_id": "CartPol-v1"})
    with wording.raised(UsageError, "CartPol-v1", "CartPole-v1"):
        make_world(config)
