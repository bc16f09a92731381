"""Functions that assign agents to policies so that league players alternate between the sides of a game.

The mappings apply to two-player worlds whose agents are `x` and `o`, `red` and `yellow`, or end in a number.
"""

from __future__ import annotations

import re

_SIDES = {"x": 0, "o": 1, "red": 0, "yellow": 1}


def alternate(agent: str, episode: int) -> str:
    """Assigns the first side to `main` in even episodes, the second side in odd ones, and the other to `opponent`.

    Examples:
        >>> alternate("x", 0), alternate("o", 0), alternate("x", 1), alternate("player_1", 1)
        ('main', 'opponent', 'opponent', 'main')
    """
    return ("main", "opponent")[(_side(agent) + episode) % 2]


def alternate_with_self_play(agent: str, episode: int) -> str:
    """Assigns both sides to `main` in two episodes, then sides to `main` and `opponent` in turn for two.

    Examples:
        >>> [(alternate_with_self_play("x", n), alternate_with_self_play("o", n)) for n in range(4)]
        [('main', 'main'), ('main', 'main'), ('main', 'opponent'), ('opponent', 'main')]
    """
    return "main" if episode % 4 < 2 else alternate(agent, episode)


def alternate_with_exploiter(agent: str, episode: int) -> str:
    """Alternates the games: `main` against `opponent` in two episodes, then `exploiter` against `exploited` in two.

    Examples:
        >>> [alternate_with_exploiter("x", episode) for episode in range(4)]
        ['main', 'opponent', 'exploiter', 'exploited']
    """
    learner, opponent = (("main", "opponent"), ("exploiter", "exploited"))[episode // 2 % 2]
    return (learner, opponent)[(_side(agent) + episode) % 2]


def alternate_roles(agent: str, episode: int) -> str:
    """Assigns one side to `first` or `second` in alternating episodes, and the other side to its opponent.

    In a game with roles, each side has its own policy. In even episodes, `first` plays the first side against
    `first_opponent`, a seat with versions of `second`. In odd episodes, `second` plays the second side against
    `second_opponent`, a seat with versions of `first`.

    Examples:
        >>> [(alternate_roles("player_0", episode), alternate_roles("player_1", episode)) for episode in (0, 1)]
        [('first', 'first_opponent'), ('second_opponent', 'second')]
    """
    learner = ("first", "second")[episode % 2]
    return learner if _side(agent) == episode % 2 else f"{learner}_opponent"


def _side(agent: str) -> int:
    number = re.search(r"\d+$", agent)
    return int(number.group()) if number else _SIDES[agent]
