"""Agent-to-policy mappings in which the players of a league alternate between the two sides of a game.

The mappings apply to two-player envs whose agents are `x` and `o`, `red` and `yellow`, or end in a number.
"""

from __future__ import annotations

import re

_SIDES = {"x": 0, "o": 1, "red": 0, "yellow": 1}


def alternate(agent: str, episode: int) -> str:
    """Assigns the sides of a game to `main` and `opponent`, which swap sides after each episode.

    In even episodes, `main` plays the first side.

    Examples:
        >>> alternate("x", 0), alternate("o", 0), alternate("x", 1), alternate("player_1", 1)
        ('main', 'opponent', 'opponent', 'main')
    """
    return ("main", "opponent")[(_side(agent) + episode) % 2]


def alternate_with_self_play(agent: str, episode: int) -> str:
    """Alternates two episodes of `main` against itself with two of `main` against `opponent`, one on each side.

    Examples:
        >>> [(alternate_with_self_play("x", n), alternate_with_self_play("o", n)) for n in range(4)]
        [('main', 'main'), ('main', 'main'), ('main', 'opponent'), ('opponent', 'main')]
    """
    return "main" if episode % 4 < 2 else alternate(agent, episode)


def alternate_with_exploiter(agent: str, episode: int) -> str:
    """Alternates two episodes of `main` against `opponent` with two of `exploiter` against `exploited`.

    Examples:
        >>> [alternate_with_exploiter("x", episode) for episode in range(4)]
        ['main', 'opponent', 'exploiter', 'exploited']
    """
    learner, opponent = (("main", "opponent"), ("exploiter", "exploited"))[episode // 2 % 2]
    return (learner, opponent)[(_side(agent) + episode) % 2]


def alternate_roles(agent: str, episode: int) -> str:
    """Alternates policies `first` and `second` by episode, each on its own side and against its own opponent.

    Use it for games in which each side has a separate policy. In even episodes, `first` plays the first side against
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
