"""Validation of a spec entry's seats (roles of frozen opponents) and league."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from rlrun.engine.envs.env_config import EnvConfig
from rlrun.engine.league.league_settings import LeagueSettings, SeatSettings
from rlrun.engine.league.scripted_opponent import ScriptedOpponent
from rlrun.engine.messages.errors import RlrunError
from rlrun.engine.messages.explain import Location, Mistake, shown, unknown_name
from rlrun.engine.settings.config import ConfigModel
from rlrun.engine.training.assemble.policies import Policies
from rlrun.engine.training.save.saved_opponents import read_opponent, saved_spaces
from rlrun.engine.worlds.make import spaces_of_policies
from rlrun.experiments.spec.search_space import is_search_space
from rlrun.experiments.spec.section import Section, check_section, refusals

SEAT_KEYS = ("seats", "league")
"""Keys of a spec entry that define opponents for self-play: seats and league."""
NAME_PATTERN = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")
"""Regular expression for names of policies and seats."""


@dataclass(frozen=True)
class CheckedSeats:
    """Result of validating a spec entry's seats (roles of frozen opponents) and league.

    Attributes:
        mistakes: Mistakes, with locations in the entry.
        sections: Each seat and the league as written.
        seats: The seats, with default settings in place of invalid ones.
        league: The league, with default settings in place of invalid ones.
    """

    mistakes: list[Mistake] = field(default_factory=list)
    sections: tuple[Section[ConfigModel], ...] = ()
    seats: dict[str, SeatSettings] = field(default_factory=dict)
    league: LeagueSettings = field(default_factory=LeagueSettings)


def check_seats(entry: Mapping[str, Any], policies: Sequence[str], trained: Sequence[str]) -> CheckedSeats:
    """Validates a spec entry's seats (roles of frozen opponents) and league.

    Args:
        entry: The entry as written; a league without settings is {}.
        policies: Names of the entry's policies.
        trained: Names of the policies that learn; at least one.

    Raises:
        UserCodeError: A scripted opponent's module raises an exception while it is imported.
    """
    written = entry.get("seats")
    if "seats" not in entry:
        message = f"a league needs seats: add, for example, seats: {{opponent: {{plays_against: {trained[0]}}}}}"
        return CheckedSeats([Mistake(("league",), message, at_key=True)] if "league" in entry else [])
    if not isinstance(written, Mapping) or not written or is_search_space(written):
        message = f"must be a mapping of names to seats, each with plays_against, not {shown(written)}"
        return CheckedSeats([Mistake(("seats",), message)])
    misnamed = {name: wrong for name in written if (wrong := _name_mistake(name, policies))}
    sections = {
        name: check_section(SeatSettings, seat, ("seats", name), lambda value: _seat_mistakes(value, trained))
        for name, seat in written.items()
        if name not in misnamed
    }
    league = check_section(LeagueSettings, entry.get("league", {}), ("league",))
    checked: list[Section[ConfigModel]] = [*sections.values(), *([league] if "league" in entry else [])]
    return CheckedSeats(
        mistakes=[Mistake(("seats", name), wrong, at_key=True) for name, wrong in misnamed.items()]
        + [mistake for section in checked for mistake in section.mistakes],
        sections=tuple(checked),
        seats={
            name: SeatSettings(plays_against=trained[0]) if section.value is None or section.mistakes else section.value
            for name, section in sections.items()
        },
        league=league.value or LeagueSettings(),
    )


def _name_mistake(name: Any, policies: Sequence[str]) -> str:
    """Message on an invalid name of a seat; "" for a valid one."""
    if not NAME_PATTERN.fullmatch(str(name)):
        return f"the seat name '{name}' must consist of letters, digits and _-"
    return f"'{name}' is the name of both a policy and a seat: rename the seat" if name in policies else ""


def _seat_mistakes(seat: SeatSettings, trained: Sequence[str]) -> list[Mistake]:
    """Mistakes in a seat: names of policies that do not learn, invalid scripts, and unreadable checkpoints."""
    named: list[tuple[Location, str]] = [(("plays_against",), seat.plays_against)]
    named += [(("selves_of", index), name) for index, name in enumerate(seat.selves_of)]
    mistakes = [
        Mistake(location, unknown_name(name, trained, "must name a learning policy: unknown name"))
        for location, name in named
        if name not in trained
    ]
    for path in seat.scripted:
        mistakes += refusals(("scripted", path), partial(ScriptedOpponent, path), at_key=True)
    for path in seat.checkpoints:
        mistakes += refusals(("checkpoints", path), partial(read_opponent, path), at_key=True)
    return mistakes


def opponent_mistakes(learns: Policies, env: EnvConfig) -> list[Mistake]:
    """Finds opponents' checkpoints whose spaces differ from those of the agents that the opponents control.

    Creates the world for the check.

    Args:
        learns: The policies and seats, with readable checkpoints.
        env: The world.
    """
    if not any(seat.checkpoints for seat in learns.seats.values()):
        return []
    try:
        spaces = spaces_of_policies(env, learns.agent_mapping())
    except RlrunError:  # mistakes of the world are reported when training starts
        return []
    mistakes = []
    for name, seat in learns.seats.items():
        wanted = (str(spaces[name].observation), str(spaces[name].action))
        for path in seat.checkpoints:
            found = saved_spaces(path)
            if found is not None and found != wanted:
                message = f"has {found[0]} and {found[1]}, but the agents of this seat have {wanted[0]} and {wanted[1]}"
                mistakes.append(Mistake(("seats", name, "checkpoints", path), message, at_key=True))
    return mistakes
