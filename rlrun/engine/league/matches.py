"""Games between the two sides of a multi-agent env, for the payoff matrix and ratings of a league."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from rlrun.engine.data.action_kind import ActionKind
from rlrun.engine.envs.env_config import EnvConfig
from rlrun.engine.envs.episode_position import EpisodeSeeds
from rlrun.engine.league.league_settings import SeatSettings
from rlrun.engine.league.ratings import Outcomes
from rlrun.engine.messages.errors import UsageError
from rlrun.engine.rollout.evaluation import ActsInWorld, evaluate
from rlrun.engine.worlds.make import make_vector_world, spaces_of_policies
from rlrun.engine.worlds.mapping import PolicyMapping

FIRST, SECOND = "first", "second"

SIDES = (FIRST, SECOND)
"""Names of a world's sides; the first possible agent belongs to the first side."""


class Matches:
    """Plays games between policies, each of which acts for one of the two sides of a multi-agent env.

    The sides are the two groups of agents that the mapping separates, such as hunters and prey, or the learning
    policy's agents and its opponents' agents. If one policy acts for all agents, the sides are the first and the second
    half of the possible agents.

    Args:
        world: Config of the multi-agent env.
        mapping: The mapping of agents to policies.
        seats: Settings of the seats in the mapping.

    Attributes:
        spaces: Observation and action space of the agents on each side.

    Raises:
        UsageError: The possible agents do not form two sides, or the env was passed as an instance, which training is
            using.
    """

    def __init__(self, world: EnvConfig, mapping: PolicyMapping, seats: Mapping[str, SeatSettings]) -> None:
        if world.fixed_num_envs is not None:
            raise UsageError(
                f"env {world.id} is an instance that training already uses: for games between policies, pass "
                "a class or function that creates new worlds"
            )
        made = make_vector_world(world, 1, EpisodeSeeds(0, 0), mapping, {})
        agents = tuple(made.possible_agents)
        made.close()
        self._world = world
        seatings = mapping.seatings(agents)
        self._agents = _two_sides(world, agents, seatings)
        self._played_by = _played_by(self._agents, seatings, seats)
        self.spaces = spaces_of_policies(world, self._seated(FIRST))

    def sides_of(self, player: str) -> tuple[str, ...]:
        """Returns the sides (`first`, `second`) that a policy or frozen opponent can play; both for an unknown name."""
        return self._played_by.get(player, SIDES)

    def sides_against(self, player: str, other: str) -> tuple[str, ...]:
        """Returns the sides (`first`, `second`) on which one player can meet another, who then plays the opposite side.

        Two players that can only play the same side, such as two hunters, cannot meet.
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
        actions: ActionKind = "sampled",
    ) -> dict[str, Outcomes]:
        """Plays games between two players; returns the first player's wins, draws and losses on each side.

        Games on both sides use the same seeds. The side with the higher return wins.

        Args:
            mine: Player (policy or script) whose outcomes are returned.
            other: The other player.
            episodes: Number of games, divided equally among `sides` and rounded up.
            seed: Seed of the games and of the actions.
            sides: Sides on which `mine` plays, `first` and/or `second`.
            actions: Whether actions are greedy or sampled. With greedy actions, two policies in a deterministic world
                always play the same game.

        Raises:
            UsageError: An agent appears that belongs to no side, or an agent does not have exactly one episode in a
                game.
        """
        found = {}
        played = -(-episodes // len(sides))
        for side in sides:
            behaviors = {FIRST: mine, SECOND: other}
            try:
                result = evaluate(behaviors, self._world, played, seed, mapping=self._seated(side), actions=actions)
            except UsageError as error:  # an agent on neither side, or a group of agents on both
                raise UsageError(f"env {self._world.id} does not support two-sided games: {error}") from error
            ahead = self._points(result.policies[FIRST].returns, played, self._agents_of(side))
            ahead -= self._points(result.policies[SECOND].returns, played, self._agents_of(other_side(side)))
            found[side] = Outcomes(
                *(int(count) for count in ((ahead > 0).sum(), (ahead == 0).sum(), (ahead < 0).sum()))
            )
        return found

    def _seated(self, side: str) -> PolicyMapping:
        """Assigns the agents of the given side to `first`, and the others to `second`."""
        mine, others = self._agents_of(side), self._agents_of(other_side(side))
        return PolicyMapping(SIDES, {**dict.fromkeys(mine, FIRST), **dict.fromkeys(others, SECOND)})

    def _agents_of(self, side: str) -> tuple[str, ...]:
        return self._agents[SIDES.index(side)]

    def _points(self, returns: list[float], games: int, agents: Sequence[str]) -> NDArray[np.float64]:
        """Returns one side's return in each game: the sum over the side's agents."""
        if len(returns) != games * len(agents):
            raise UsageError(
                f"env {self._world.id}: {len(returns)} agent episodes in {games} games: every agent must live "
                "exactly once per game"
            )
        points: NDArray[np.float64] = np.array(returns, np.float64).reshape(games, -1).sum(axis=1)
        return points


def other_side(side: str) -> str:
    """Returns the opposite of a side: `second` for `first`, and `first` for `second`."""
    return SECOND if side == FIRST else FIRST


def _two_sides(
    world: EnvConfig, agents: tuple[str, ...], seatings: Sequence[Mapping[str, list[str]]]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Splits the world's possible agents into two sides.

    Raises:
        UsageError: The mapping does not form exactly two groups, or an odd number of agents would have to be halved.
    """
    groups = {frozenset(own) for seating in seatings for own in seating.values() if own} - {frozenset(agents)}
    if not groups:
        if len(agents) < 2 or len(agents) % 2:
            raise UsageError(f"env {world.id}: two-sided games need an even number of agents, not {len(agents)}")
        half = len(agents) // 2
        return agents[:half], agents[half:]
    first = next((group for group in groups if agents[0] in group), frozenset())
    if groups != {first, frozenset(agents) - first}:
        raise UsageError(f"env {world.id}: games need two sides, but the mapping has {len(groups)} groups of agents")
    return tuple(agent for agent in agents if agent in first), tuple(agent for agent in agents if agent not in first)


def _played_by(
    sides: tuple[tuple[str, ...], tuple[str, ...]],
    seatings: Sequence[Mapping[str, list[str]]],
    seats: Mapping[str, SeatSettings],
) -> dict[str, tuple[str, ...]]:
    """Returns the sides that each policy and seat opponent can play."""
    found: dict[str, set[str]] = {}
    for seating in seatings:
        for name, own in seating.items():
            on = {side for side, agents in zip(SIDES, sides, strict=True) if set(agents) <= set(own)}
            players = (name,) if name not in seats else seats[name].opponents
            for player in players:
                found.setdefault(player, set()).update(on)
    return {player: tuple(side for side in SIDES if side in on) for player, on in found.items()}
