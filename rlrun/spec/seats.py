"""Checking what an entry says of seats, in which frozen opponents act, and of their league."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rlrun.config import ConfigModel
from rlrun.explain import Location, Mistake, shown, unknown_name
from rlrun.league.league_settings import LeagueSettings, SeatSettings
from rlrun.spec.search_space import SearchSpace, is_search_space
from rlrun.spec.section import Section, check_section

SEAT_KEYS = ("seats", "league")
"""The keys of an entry that say who plays against its policies."""
NAME_PATTERN = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")
"""What names of policies and seats are made of."""


@dataclass(frozen=True)
class CheckedSeats:
    """What came of checking seats and their league.

    Attributes:
        mistakes: What is wrong, with locations in the entry.
        spaces: The search spaces, by location in the entry.
        models: What each seat and the league must be, by location in the entry.
        seats: The seats, with default settings where those of the entry are wrong.
        league: The league, likewise.
    """

    mistakes: list[Mistake] = field(default_factory=list)
    spaces: dict[Location, SearchSpace] = field(default_factory=dict)
    models: dict[Location, type[ConfigModel]] = field(default_factory=dict)
    seats: dict[str, SeatSettings] = field(default_factory=dict)
    league: LeagueSettings = field(default_factory=LeagueSettings)


def check_seats(entry: Mapping[str, Any], policies: Sequence[str], trained: Sequence[str]) -> CheckedSeats:
    """Checks an entry's seats and its league.

    Args:
        entry: The entry as it was written, a league without settings as {}.
        policies: Names of its policies.
        trained: Those of them that learn, at least one.
    """
    found = CheckedSeats()
    written = entry.get("seats")
    if "seats" not in entry:
        if "league" in entry:
            message = f"a league is of seats: add for instance seats: {{opponent: {{plays_against: {trained[0]}}}}}"
            found.mistakes.append(Mistake(("league",), message, at_key=True))
        return found
    if not isinstance(written, Mapping) or not written or is_search_space(written):
        message = f"must be a mapping of names to seats, each with plays_against, not {shown(written)}"
        return CheckedSeats([Mistake(("seats",), message)])
    for name, seat in written.items():
        if wrong := _name_mistake(name, policies):
            found.mistakes.append(Mistake(("seats", name), wrong, at_key=True))
            continue
        own = check_section(SeatSettings, seat, ("seats", name), lambda value: _strangers(value, trained))
        _add(found, own, SeatSettings, ("seats", name))
        sound = own.value if not own.mistakes else None
        found.seats[name] = sound or SeatSettings(plays_against=trained[0])
    if "league" not in entry:
        return found
    league = check_section(LeagueSettings, entry["league"], ("league",))
    _add(found, league, LeagueSettings, ("league",))
    return CheckedSeats(found.mistakes, found.spaces, found.models, found.seats, league.value or found.league)


def _add(found: CheckedSeats, section: Section[Any], model: type[ConfigModel], location: Location) -> None:
    found.mistakes.extend(section.mistakes)
    found.spaces.update(section.spaces)
    found.models[location] = model


def _name_mistake(name: Any, policies: Sequence[str]) -> str:
    """Says why a seat cannot have a name; "" if it can."""
    if not NAME_PATTERN.fullmatch(str(name)):
        return f"the seat's name '{name}' must be of letters, digits and _-"
    return f"'{name}' is a policy and a seat: give the seat another name" if name in policies else ""


def _strangers(seat: SeatSettings, trained: Sequence[str]) -> list[Mistake]:
    """Names policies of a seat that do not learn, with locations in the seat."""
    named: list[tuple[Location, str]] = [(("plays_against",), seat.plays_against)]
    named += [(("selves_of", index), name) for index, name in enumerate(seat.selves_of)]
    return [
        Mistake(location, unknown_name(name, trained, "must name a policy that learns: there is no"))
        for location, name in named
        if name not in trained
    ]
