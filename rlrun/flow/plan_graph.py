"""A plan as boxes and arrows, each in its lane and rank: what the drawings of a plan share."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from rlrun.flow.flow import OperatorInfo

Kind = Literal["on_worker", "source", "operator", "duplicate", "copy", "join"]


@dataclass(frozen=True)
class Box:
    """One step of a plan.

    Attributes:
        identifier: Unique in the drawing.
        kind: What it is: an operator on the workers, a source, an operator on the driver, where a stream is duplicated,
            one of the copies, or where branches join.
        name: The operator's name.
        settings: Its settings, such as `gamma=0.99`.
        rank: Row in the drawing: 0 for what begins, else one below the lowest box above it.
        lane: Column in the drawing; one that joins or feeds several stands in the middle of them.
        group: Identifier of the source on whose workers it runs, "" on the driver.
    """

    identifier: str
    kind: Kind
    name: str
    settings: tuple[str, ...]
    rank: int
    lane: float
    group: str = ""


@dataclass(frozen=True)
class Arrow:
    """Where items go.

    Attributes:
        start: Identifier of the box they leave.
        end: Identifier of the box they enter.
        goes_on: Whether they pass that box; a join drops the items of some of its branches.
    """

    start: str
    end: str
    goes_on: bool = True


@dataclass(frozen=True)
class PlanGraph:
    """A plan as boxes, the ones upstream first, and arrows."""

    boxes: tuple[Box, ...]
    arrows: tuple[Arrow, ...]


def plan_graph(plan: Sequence[OperatorInfo]) -> PlanGraph:
    """Returns the boxes and arrows of a plan; a stream that several branches copy is there once.

    Args:
        plan: What `Flow.describe` returned.
    """
    layout = _Layout()
    layout.add_chain(plan, 0)
    layout.center_duplicated_streams()
    return PlanGraph(tuple(layout.boxes.values()), tuple(layout.arrows))


class _Layout:
    """Gives every step its box and place, branch by branch."""

    def __init__(self) -> None:
        self.boxes: dict[str, Box] = {}
        self.arrows: list[Arrow] = []
        self._by_path: dict[str, str] = {}

    def add_chain(self, plan: Sequence[OperatorInfo], left: int) -> tuple[str, int]:
        """Adds a chain and what joins at its head.

        Args:
            plan: The chain.
            left: The first lane that is free for it.

        Returns:
            The identifier of its last box, and how many lanes it takes.
        """
        width, before = 1, ""
        for info in plan:
            if info.path in self._by_path:
                before = self._by_path[info.path]
                continue
            above = [Arrow(before, "")] if before else []
            if info.branches:
                ends, width = self._branches(info, left)
                above = [Arrow(end, "", number in info.settings["output"]) for number, end in enumerate(ends)]
            before = self._by_path[info.path] = self._add_step(info, left + (width - 1) / 2, above)
        return before, width

    def _branches(self, info: OperatorInfo, left: int) -> tuple[list[str], int]:
        ends, width = [], 0
        for branch in info.branches:
            end, taken = self.add_chain(branch, left + width)
            ends.append(end)
            width += taken
        return ends, width

    def _add_step(self, info: OperatorInfo, lane: float, above: list[Arrow]) -> str:
        source = f"n{len(self.boxes) + len(info.on_workers)}"
        for name, settings in info.on_workers:
            identifier = self._add("on_worker", name, _texts(settings), lane, above, group=source)
            above = [Arrow(identifier, "")]
        if info.kind == "copy":
            return self._add("copy", f"copy {info.settings['index']}", (), lane, above)
        if info.kind == "filter":
            shown = f"({', '.join(_texts(info.settings))})" if info.settings else ""
            return self._add("operator", f"filter({info.name}{shown})", (), lane, above)
        joins: dict[str, Kind] = {"concurrently": "join", "followed_by": "join"}
        kinds: dict[str, Kind] = {"source": "source", "duplicate": "duplicate", **joins}
        settings = {name: value for name, value in info.settings.items() if not (info.branches and name == "output")}
        return self._add(kinds.get(info.kind, "operator"), info.name, _texts(settings), lane, above)

    def _add(
        self, kind: Kind, name: str, settings: tuple[str, ...], lane: float, above: list[Arrow], group: str = ""
    ) -> str:
        identifier = f"n{len(self.boxes)}"
        rank = max((self.boxes[arrow.start].rank + 1 for arrow in above), default=0)
        self.boxes[identifier] = Box(identifier, kind, name, settings, rank, lane, group)
        self.arrows += [dataclasses.replace(arrow, end=identifier) for arrow in above]
        return identifier

    def center_duplicated_streams(self) -> None:
        """Moves each stream that is duplicated to the middle of its copies, where nothing else is in the way."""
        duplicates = [box for box in self.boxes.values() if box.kind == "duplicate"]
        for duplicate in reversed(duplicates):
            copies = [arrow.end for arrow in self.arrows if arrow.start == duplicate.identifier]
            lane = sum(self.boxes[copy].lane for copy in copies) / max(len(copies), 1)
            stream = self._stream_above(duplicate.identifier)
            if copies and not any(self._is_taken(self.boxes[step].rank, lane, stream) for step in stream):
                for step in stream:
                    self.boxes[step] = dataclasses.replace(self.boxes[step], lane=lane)

    def _stream_above(self, identifier: str) -> list[str]:
        """Returns a box and the ones above it up to where a stream begins, joins or is itself a copy."""
        stream = [identifier]
        while self.boxes[stream[-1]].kind != "copy":
            starts = [arrow.start for arrow in self.arrows if arrow.end == stream[-1]]
            if len(starts) != 1:
                break
            stream.append(starts[0])
        return stream

    def _is_taken(self, rank: int, lane: float, by_others_than: Sequence[str]) -> bool:
        """Whether a place lies on another box, or on a long arrow, which runs down the lane that it leaves."""
        others = [box for box in self.boxes.values() if box.identifier not in by_others_than]
        ends = {arrow.start: self.boxes[arrow.end].rank for arrow in self.arrows}
        return any(
            abs(box.lane - lane) < 1 and box.rank <= rank < max(ends.get(box.identifier, 0), box.rank + 1)
            for box in others
        )


def _texts(settings: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(f"{setting}={value}" for setting, value in settings.items())
