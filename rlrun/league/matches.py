"""Games between two sides of a world, for pay-offs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from rlrun.envs.env_config import EnvConfig
from rlrun.envs.episode_place import EpisodeSeeds
from rlrun.errors import UsageError
from rlrun.league.league_settings import SeatSettings
from rlrun.league.ratings import Outcomes
from rlrun.rollout.evaluation import ActsInWorld, evaluate
from rlrun.worlds.make import make_vector_world, spaces_of_policies
from rlrun.worlds.mapping import PolicyMapping

FIRST, SECOND = "first", "second"

SIDES = (FIRST, SECOND)
"""What the sides of a world are called; the first possible agent is of the first one."""


class Matches:
    """Plays games between the two sides of a world.

    The sides are the two groups of agents that the mapping tells apart: hunters and prey, or those of the policy that
    learns and those of its seat. Where one policy acts for everybody, they are the first half of the possible agents
    and the second.

    Args:
        world: The world.
        mapping: Which agents are whose.
        seats: The seats among those that agents are mapped to.

    Attributes:
        spaces: Of the agents of each side.

    Raises:
        UsageError: If its possible agents are not two sides.
    """

    def __init__(self, world: EnvConfig, mapping: PolicyMapping, seats: Mapping[str, SeatSettings]) -> None:
        made = make_vector_world(world, 1, EpisodeSeeds(0, 0), mapping, {})
        agents = tuple(made.possible_agents)
        made.close()
        self._world = world
        seatings = mapping.seatings(agents)
        self._agents = _two_sides(world, agents, seatings)
        self._played_by = _played_by(self._agents, seatings, seats)
        self.spaces = spaces_of_policies(world, self._seated(FIRST))

    def sides_of(self, player: str) -> tuple[str, ...]:
        """Returns which sides a policy, or another opponent of a seat, plays; both of one that nobody knows."""
        return self._played_by.get(player, SIDES)

    def sides_against(self, player: str, other: str) -> tuple[str, ...]:
        """Returns on which sides a player can meet another one, who is on the other side then.

        Where both play the same side alone, as two hunters do, they never meet.
        """
        return tuple(side for side in self.sides_of(player) if other_side(side) in self.sides_of(other))

    def play(
        self,
        mine: ActsInWorld,
        other: ActsInWorld,
        episodes: int,
        seed: int,
        *,
        sides: Sequence[str] = SIDES,
        explore: bool = True,
    ) -> dict[str, Outcomes]:
        """Returns how games against another ended, by the side that one's own was.

        Games on the second side have the seeds of those on the first. Who was given more in a game has won.

        Args:
            mine: Who acts on one side.
            other: Who acts on the other.
            episodes: How many games, as many on each side; rounded up to an even number where there are two.
            seed: Seed of the games and of the actions.
            sides: Which sides one plays.
            explore: Whether actions are drawn instead of the likeliest ones. In a world without chance two policies
                that do not draw play the same game again and again.

        Raises:
            UsageError: Agents appear that are on no side, or that do not live once in each game.
        """
        found = {}
        played = -(-episodes // len(sides))
        for side in sides:
            behaviors = {FIRST: mine, SECOND: other}
            try:
                result = evaluate(behaviors, self._world, played, seed, mapping=self._seated(side), explore=explore)
            except UsageError as error:  # an agent that is on neither side, or a group of agents that is on both
                raise UsageError(f"env {self._world.id}: no games of two sides can be played in it: {error}") from error
            ahead = self._points(result.policies[FIRST].returns, played, self._agents_of(side))
            ahead -= self._points(result.policies[SECOND].returns, played, self._agents_of(other_side(side)))
            found[side] = Outcomes(
                *(int(count) for count in ((ahead > 0).sum(), (ahead == 0).sum(), (ahead < 0).sum()))
            )
        return found

    def _seated(self, side: str) -> PolicyMapping:
        """Returns a mapping of the agents of a side to `first`, and of those of the other one to `second`."""
        mine, others = self._agents_of(side), self._agents_of(other_side(side))
        return PolicyMapping(SIDES, {**dict.fromkeys(mine, FIRST), **dict.fromkeys(others, SECOND)})

    def _agents_of(self, side: str) -> tuple[str, ...]:
        return self._agents[SIDES.index(side)]

    def _points(self, returns: list[float], games: int, agents: Sequence[str]) -> NDArray[np.float64]:
        """Returns what a side was given in each game, from what each of its agents was given."""
        if len(returns) != games * len(agents):
            raise UsageError(
                f"env {self._world.id}: {len(returns)} episodes of agents in {games} games: every agent has to live "
                "once in each"
            )
        points: NDArray[np.float64] = np.array(returns, np.float64).reshape(games, -1).sum(axis=1)
        return points


def other_side(side: str) -> str:
    """Returns whom a side plays against."""
    return SECOND if side == FIRST else FIRST


def _two_sides(
    world: EnvConfig, agents: tuple[str, ...], seatings: Sequence[Mapping[str, list[str]]]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Returns the agents of both sides.

    Raises:
        UsageError: If the mapping tells other groups apart than two, or half of an odd number would be a side.
    """
    groups = {frozenset(own) for seating in seatings for own in seating.values() if own} - {frozenset(agents)}
    if not groups:
        if len(agents) < 2 or len(agents) % 2:
            raise UsageError(f"env {world.id}: games of two sides need an even number of agents, not {len(agents)}")
        half = len(agents) // 2
        return agents[:half], agents[half:]
    first = next((group for group in groups if agents[0] in group), frozenset())
    if groups != {first, frozenset(agents) - first}:
        raise UsageError(
            f"env {world.id}: games need two sides, and the mapping tells {len(groups)} groups of agents apart"
        )
    return tuple(agent for agent in agents if agent in first), tuple(agent for agent in agents if agent not in first)


def _played_by(
    sides: tuple[tuple[str, ...], tuple[str, ...]],
    seatings: Sequence[Mapping[str, list[str]]],
    seats: Mapping[str, SeatSettings],
) -> dict[str, tuple[str, ...]]:
    """Returns the sides that each policy plays, and each that sits in a seat."""
    found: dict[str, set[str]] = {}
    for seating in seatings:
        for name, own in seating.items():
            on = {side for side, agents in zip(SIDES, sides, strict=True) if set(agents) <= set(own)}
            players = (name,) if name not in seats else seats[name].opponents
            for player in players:
                found.setdefault(player, set()).update(on)
    return {player: tuple(side for side in SIDES if side in on) for player, on in found.items()}
