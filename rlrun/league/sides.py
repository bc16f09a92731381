"""Mappings for leagues: functions from an agent and its world's episode to a policy, which swap sides.

They know two-player worlds whose agents are `x` and `o`, `red` and `yellow`, or end in a number.
"""

from __future__ import annotations

import re

_SIDES = {"x": 0, "o": 1, "red": 0, "yellow": 1}


def alternate(agent: str, episode: int) -> str:
    """Returns `main` for the first side in even episodes and for the second in odd ones, `opponent` for the other.

    Examples:
        >>> alternate("x", 0), alternate("o", 0), alternate("x", 1), alternate("player_1", 1)
        ('main', 'opponent', 'opponent', 'main')
    """
    return ("main", "opponent")[(_side(agent) + episode) % 2]


def alternate_with_self_play(agent: str, episode: int) -> str:
    """Returns `main` for both sides in two episodes, so that it learns from both, then as `alternate` in two.

    Examples:
        >>> [(alternate_with_self_play("x", n), alternate_with_self_play("o", n)) for n in range(4)]
        [('main', 'main'), ('main', 'main'), ('main', 'opponent'), ('opponent', 'main')]
    """
    return "main" if episode % 4 < 2 else alternate(agent, episode)


def alternate_with_exploiter(agent: str, episode: int) -> str:
    """Returns as `alternate` in two episodes, then `exploiter` and `exploited` for `main` and `opponent` in two.

    Examples:
        >>> [alternate_with_exploiter("x", episode) for episode in range(4)]
        ['main', 'opponent', 'exploiter', 'exploited']
    """
    learner, opponent = (("main", "opponent"), ("exploiter", "exploited"))[episode // 2 % 2]
    return (learner, opponent)[(_side(agent) + episode) % 2]


def alternate_roles(agent: str, episode: int) -> str:
    """Returns `first` for the first side and `first_opponent` for the other; in odd episodes `second` for the second.

    Each side of a game with roles has a policy of its own. `first_opponent` is a seat with selves of `second`, and
    `second_opponent` one with those of `first`.

    Examples:
        >>> [(alternate_roles("player_0", episode), alternate_roles("player_1", episode)) for episode in (0, 1)]
        [('first', 'first_opponent'), ('second_opponent', 'second')]
    """
    learner = ("first", "second")[episode % 2]
    return learner if _side(agent) == episode % 2 else f"{learner}_opponent"


def _side(agent: str) -> int:
    number = re.search(r"\d+$", agent)
    return int(number.group()) if number else _SIDES[agent]
