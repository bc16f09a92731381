"""What a world that runs tells of itself to whoever looks at its thread."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium.spaces import Box, Discrete

from rlrun.envs.env_watch import waits_for
from rlrun.envs.spaces import Spaces
from rlrun.envs.vector_env import EpisodeSeeds
from rlrun.worlds.loop_worlds import LoopWorlds
from rlrun.worlds.mapping import PolicyMapping
from rlrun.worlds.world import World, WorldStep

SPACES = Spaces(Box(-1, 1, (1,)), Discrete(2))


class Watched(World):
    """Looks at its own thread from inside, as the watch does that finds it hung."""

    possible_agents = ("a",)

    def __init__(self) -> None:
        self.told: list[str] = []

    def spaces(self, agent: str) -> Spaces:
        return SPACES

    def reset(self, seed: int) -> Mapping[str, Any]:
        self.told.append(waits_for(sys._getframe()))
        return {"a": np.zeros(1, np.float32)}

    def step(self, actions: Mapping[str, Any]) -> WorldStep:
        return WorldStep(self.reset(0), {}, {}, {}, {}, ended=False)


def test_a_world_that_hangs_is_named_with_its_episode_and_step() -> None:
    worlds, seeds = [Watched(), Watched()], EpisodeSeeds(0, worker_index=3)
    vector = LoopWorlds("x:y", worlds, seeds, PolicyMapping(["p"]), {"p": ("a", SPACES)}, {"p": 1})
    vector.reset()
    vector.step({"p": np.zeros(2, int)})
    vector.step({"p": np.zeros(2, int)})
    where = f"worker 3, world 1, episode 0 with seed {seeds.seed(1, 0)}, step"
    assert worlds[1].told == [f"{where} {step}" for step in (0, 0, 1)]


def test_a_thread_that_waits_for_no_world_is_said_to_wait_for_none() -> None:
    assert waits_for(sys._getframe()) == ""
