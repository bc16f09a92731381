"""Games between two sides of a world, for pay-offs."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rlrun.envs.vector_env import EpisodeSeeds
from rlrun.errors import UsageError
from rlrun.league.ratings import Outcomes
from rlrun.rollout.world_evaluation import ActsInWorld, evaluate_world
from rlrun.worlds.make import make_vector_world
from rlrun.worlds.mapping import PolicyMapping
from rlrun.worlds.world_config import WorldConfig

FIRST, SECOND = "first", "second"


class Matches:
    """Plays games between two sides of a world: its first half of the possible agents against the second.

    Args:
        world: The world.

    Raises:
        UsageError: If its possible agents are not two sides.
    """

    def __init__(self, world: WorldConfig) -> None:
        made = make_vector_world(world, 1, EpisodeSeeds(0, 0), PolicyMapping((FIRST,)), {})
        agents = tuple(made.possible_agents)
        made.close()
        if len(agents) < 2 or len(agents) % 2:
            raise UsageError(f"env {world.id}: games of two sides need an even number of agents, not {len(agents)}")
        self._world = world
        half = len(agents) // 2
        self._halves = agents[:half], agents[half:]

    def play(
        self, first: ActsInWorld, second: ActsInWorld, episodes: int, seed: int, *, explore: bool = True
    ) -> Outcomes:
        """Returns how games between two ended, as the first saw them; it is the first side in half of them.

        Games are the first half's with one side and the same seeds' with the other. Who was given more in a game has
        won.

        Args:
            first: Who acts on one side.
            second: Who acts on the other.
            episodes: How many games, rounded up to an even number.
            seed: Seed of the games and of the actions.
            explore: Whether actions are drawn instead of the likeliest ones. In a world without chance two policies
                that do not draw play the same game again and again.

        Raises:
            UsageError: Agents appear that are on no side, or that do not live once in each game.
        """
        total = Outcomes(0, 0, 0)
        for mine, others in (self._halves, self._halves[::-1]):
            mapping = PolicyMapping((FIRST, SECOND), {**dict.fromkeys(mine, FIRST), **dict.fromkeys(others, SECOND)})
            played = -(-episodes // 2)
            behaviors = {FIRST: first, SECOND: second}
            try:
                result = evaluate_world(behaviors, self._world, mapping, {}, played, seed, explore=explore)
            except UsageError as error:  # an agent that is on neither side, or a group of agents that is on both
                raise UsageError(f"env {self._world.id}: no games of two sides can be played in it: {error}") from error
            ahead = self._points(result.policies[FIRST].returns, played)
            ahead -= self._points(result.policies[SECOND].returns, played)
            total += Outcomes(*(int(count) for count in ((ahead > 0).sum(), (ahead == 0).sum(), (ahead < 0).sum())))
        return total

    def _points(self, returns: list[float], games: int) -> NDArray[np.float64]:
        """Returns what a side was given in each game, from what each of its agents was given."""
        if len(returns) != games * len(self._halves[0]):
            raise UsageError(
                f"env {self._world.id}: {len(returns)} episodes of agents in {games} games: every agent has to live "
                "once in each"
            )
        points: NDArray[np.float64] = np.array(returns, np.float64).reshape(games, -1).sum(axis=1)
        return points
