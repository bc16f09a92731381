"""Draws an algorithm's plan as SVG, in the colors of the page."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from dataclasses import dataclass, field
from html import escape
from typing import Any

from rlrun.engine.flow.flow import OperatorInfo
from rlrun.engine.flow.plan import Plan

WIDTH, GAP, LINE, PAD = 196, 22, 15, 9
"""Sizes in pixels: width of a box, distance between boxes, height of a line of text, and padding around text."""
CHARACTERS = 29
"""Number of characters that fit on a line in a box."""


@dataclass
class Box:
    """A box for an operator.

    Attributes:
        name: The operator's name.
        lines: Its settings, one per line.
        kind: The operator's kind, which determines the box's shape.
        x: Its center, in column widths.
        above: Boxes that its items come from, each with whether the items pass through to the output.
        y: Its upper edge in pixels.
    """

    name: str
    lines: list[str]
    kind: str
    x: float
    above: list[tuple[Box, bool]] = field(default_factory=list)
    y: float = 0.0

    @property
    def height(self) -> float:
        """Its height in pixels."""
        return LINE * (1 + len(self.lines)) + 2 * PAD


class Picture:
    """Boxes of a plan, with a column for each branch.

    Attributes:
        boxes: The boxes by operator path, upstream boxes first.
    """

    def __init__(self, plan: Plan) -> None:
        self.boxes: dict[str, Box] = {}
        self.columns = columns(plan)
        self._place(plan, 0)
        for box in self.boxes.values():
            box.y = max((above.y + above.height + GAP for above, _ in box.above), default=0.0)

    def _place(self, plan: Plan, left: int) -> Box:
        """Places a chain of operators in the columns from `left` on; returns its last box."""
        centre = left + columns(plan) / 2
        last: Box | None = None
        for info in plan:
            if info.path not in self.boxes:
                above = [(last, True)] if last is not None else []
                at = left
                for number, branch in enumerate(info.branches):
                    above.append((self._place(branch, at), number in info.settings["output"]))
                    at += columns(branch)
                self.boxes[info.path] = Box(info.name, lines_of(info), info.kind, centre, above)
            last = self.boxes[info.path]
        assert last is not None
        return last

    def svg(self, title: str) -> str:
        """The picture as an SVG element."""
        width = self.columns * (WIDTH + GAP)
        height = max(box.y + box.height for box in self.boxes.values()) + 2
        shapes = [arrow(above, box, goes_on) for box in self.boxes.values() for above, goes_on in box.above]
        shapes += [drawn(box) for box in self.boxes.values()]
        return (
            f'<svg class="plan" viewBox="0 -1 {width} {height:.0f}" width="{width}" role="img" '
            f'aria-label="{escape(title)}">' + "".join(shapes) + "</svg>"
        )


def columns(plan: Plan) -> int:
    """Number of columns that a chain of operators needs."""
    return max([1, *(sum(columns(branch) for branch in info.branches) for info in plan)])


def lines_of(info: OperatorInfo) -> list[str]:
    """Text in an operator's box below its name."""
    settings = {name: value for name, value in info.settings.items() if not (info.branches and name == "output")}
    lines = _settings(settings)
    for name, own in info.on_workers:
        lines += [f"on each worker: {name}", *_settings(own)]
    return lines


def _settings(settings: Mapping[str, Any]) -> list[str]:
    return [line for name, value in settings.items() for line in textwrap.wrap(f"{name} = {value}", CHARACTERS)]


def drawn(box: Box) -> str:
    """SVG of a box: a pill for sources and joins; copies of a stream are dashed."""
    left, middle = box.x * (WIDTH + GAP) - WIDTH / 2, box.x * (WIDTH + GAP)
    joins = box.kind in ("concurrently", "followed_by")
    name = box.name if not joins else {"concurrently": "concurrently", "followed_by": "one after the other"}[box.kind]
    radius = 16 if joins or box.kind == "source" else 4
    texts = [f'<text class="name" x="{middle}" y="{box.y + PAD + 11}">{escape(name)}</text>']
    for number, line in enumerate(box.lines, 1):
        texts.append(f'<text x="{middle}" y="{box.y + PAD + 11 + LINE * number}">{escape(line)}</text>')
    shape = f'<rect x="{left}" y="{box.y}" width="{WIDTH}" height="{box.height}" rx="{radius}"/>'
    return f'<g class="{box.kind.replace("_", "-")}">{shape}{"".join(texts)}</g>'


def arrow(above: Box, box: Box, goes_on: bool) -> str:
    """SVG of an arrow between two boxes, dotted if the items end there."""
    start, end = above.x * (WIDTH + GAP), box.x * (WIDTH + GAP)
    top, bottom = above.y + above.height, box.y
    bend = (bottom - top) / 2
    path = f"M{start},{top} C{start},{top + bend} {end},{bottom - bend} {end},{bottom - 6}"
    head = f'<path class="head" d="M{end - 4},{bottom - 7} L{end + 4},{bottom - 7} L{end},{bottom} Z"/>'
    return f'<path class="{"arrow" if goes_on else "arrow dropped"}" d="{path}"/>{head if goes_on else ""}'
