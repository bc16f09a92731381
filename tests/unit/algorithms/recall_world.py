"""A game that only memory wins: each of two agents has to recall what it alone was shown two steps ago."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium.spaces import Box, Discrete

from rlrun.envs.spaces import Spaces
from rlrun.worlds.world import World, WorldStep

AGENTS = ("a", "b")
STEPS = 3


class TeamRecall(World):
    """Both agents are paid 1 if each takes the action of its own cue in the third step; cues are shown in the first.

    The state shows both cues at all times, so that a value of the state needs no memory. Whoever has none can be right
    half of the time alone, and a quarter of the time as a team.
    """

    def __init__(self) -> None:
        self.possible_agents = AGENTS
        self.state_space = Box(-1.0, 1.0, (3,))
        self._spaces = Spaces(Box(-1.0, 1.0, (2,)), Discrete(2))

    def spaces(self, agent: str) -> Spaces:
        return self._spaces

    def reset(self, seed: int) -> Mapping[str, Any]:
        self.cues = np.random.default_rng(seed).integers(0, 2, 2)
        self.time = 0
        return self.shown()

    def step(self, actions: Mapping[str, Any]) -> WorldStep:
        is_last = self.time == STEPS - 1
        both = all(int(actions[agent]) == cue for agent, cue in zip(AGENTS, self.cues, strict=True))
        self.time += 1
        paid = dict.fromkeys(AGENTS, float(is_last and both))
        return WorldStep(self.shown(), paid, dict.fromkeys(AGENTS, True) if is_last else {}, {}, {}, is_last)

    def shown(self) -> dict[str, Any]:
        cues = (2.0 * self.cues - 1.0) * (self.time == 0)
        return {agent: np.array([cue, self.time / STEPS], np.float32) for agent, cue in zip(AGENTS, cues, strict=True)}

    def state(self) -> Any:
        return np.array([*(2.0 * self.cues - 1.0), self.time / STEPS], np.float32)
