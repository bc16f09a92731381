"""Adapter that plays a game tree as a multi-agent world, in which the players take turns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from typing_extensions import override

from rlrun.engine.envs.env_config import WorldClock
from rlrun.engine.envs.spaces import Spaces
from rlrun.engine.worlds.games.game_tree import CHANCE, GameTree
from rlrun.engine.worlds.world import World, WorldStep

PLAYERS = ("player_0", "player_1")
"""Ids of both players."""


class TreeWorld(World):
    """Multi-agent env in which two players play a game that is given as a tree; both are rewarded at the end.

    Args:
        root: First position of the game.
        spaces: Spaces of both players: observation space of the information states, and action space.
    """

    clock: WorldClock = "per_agent"
    possible_agents = PLAYERS

    def __init__(self, root: GameTree, spaces: Spaces) -> None:
        self._root = self._position = root
        self._spaces = spaces
        self._draws = np.random.default_rng(0)

    @override
    def spaces(self, agent: str) -> Spaces:
        return self._spaces

    @override
    def reset(self, seed: int) -> Mapping[str, Any]:
        """Starts a game; the seed determines the random outcomes."""
        self._draws = np.random.default_rng(seed)
        self._position = self._after_chance(self._root)
        return self._shown()

    @override
    def step(self, actions: Mapping[str, Any]) -> WorldStep:
        """Applies the action of the player to act, and draws the random outcomes that follow."""
        (action,) = actions.values()
        self._position = self._after_chance(self._position.play(int(action)))
        if self._position.player is not None:
            return WorldStep(self._shown(), {}, {}, {}, {}, False)
        paid = dict(zip(PLAYERS, self._position.returns, strict=True))
        return WorldStep({}, paid, dict.fromkeys(PLAYERS, True), {}, {}, True)

    @override
    def game_tree(self) -> GameTree:
        return self._root

    def _shown(self) -> dict[str, Any]:
        player = self._position.player
        assert player is not None
        return {PLAYERS[player]: self._position.observe()}

    def _after_chance(self, position: GameTree) -> GameTree:
        while position.player == CHANCE:
            outcomes = position.chances()
            number = self._draws.choice(len(outcomes), p=[chance for chance, _ in outcomes])
            position = outcomes[number][1]
        return position
