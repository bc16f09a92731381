"""Draws the plan of a flow: as a Mermaid flowchart, and as an SVG laid out here."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from xml.sax.saxutils import escape

from rlrun.flow.flow import OperatorInfo
from rlrun.flow.plan_graph import Arrow, Box, Kind, PlanGraph, plan_graph

ON_WORKERS = "on each worker"
GOES_NO_FURTHER = "goes no further"

MERMAID_SHAPES: dict[Kind, tuple[str, str]] = {
    "source": ("([", "])"),
    "duplicate": ("[/", "\\]"),
    "copy": ("(", ")"),
    "join": ("{{", "}}"),
}
"""Brackets of a node; a plain box for all others."""

COLORS: dict[Kind, tuple[str, str]] = {
    "on_worker": ("#fdf0d0", "#a8690f"),
    "source": ("#dcebfb", "#2563a8"),
    "operator": ("#f1f2f4", "#6b7280"),
    "duplicate": ("#eae6fa", "#6a4fb3"),
    "copy": ("#eae6fa", "#6a4fb3"),
    "join": ("#dcf1e2", "#2f7d4f"),
}
"""Filling and border. Boxes are opaque with dark text, and lines of a grey that shows on white as on black."""
TEXT, LINES = "#1b1f24", "#7a828c"

NAME_SIZE, SETTING_SIZE = 13.0, 11.0
CHARACTER = 0.61
"""Width of a character of a monospaced font, in font sizes."""
PADDING, MARGIN = 12.0, 30.0
RANK_GAP, LANE_GAP = 40.0, 32.0


def plan_mermaid(plan: Sequence[OperatorInfo]) -> str:
    """Returns a plan as a Mermaid flowchart; branches whose items go no further end in dotted arrows.

    Args:
        plan: What `Flow.describe` returned.

    Examples:
        >>> from rlrun.flow.sources.items import from_items
        >>> print(plan_mermaid(from_items([1, 2]).for_each(str).describe()))
        flowchart TD
            n0(["from_items"])
            n1["str"]
            n0 --> n1
    """
    graph = plan_graph(plan)
    return "\n".join(["flowchart TD", *(f"    {line}" for line in _mermaid_lines(graph))])


def plan_svg(plan: Sequence[OperatorInfo], title: str) -> str:
    """Returns a plan as an SVG document; branches whose items go no further end in dashed arrows.

    Args:
        plan: What `Flow.describe` returned.
        title: What the plan is of, for those who hear the picture described.
    """
    graph = plan_graph(plan)
    placed = _placed(graph)
    right = max((place.right for place in placed.values()), default=0.0)
    bottom = max((place.bottom for place in placed.values()), default=0.0)
    width, height = right + MARGIN, bottom + MARGIN
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_n(width)} {_n(height)}" '
            f'width="{_n(width)}" height="{_n(height)}" role="img" '
            'font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, monospace">',
            f"  <title>{escape(title)}</title>",
            '  <defs><marker id="arrow" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" '
            f'orient="auto"><path d="M 0 0 L 10 5 L 0 10 z" fill="{LINES}"/></marker></defs>',
            *_frames(graph, placed),
            *_arrows(graph, placed),
            *(line for box in graph.boxes for line in _box_lines(box, placed[box.identifier])),
            "</svg>",
        ]
    )


def _mermaid_lines(graph: PlanGraph) -> Iterator[str]:
    arrows_into = {
        box.identifier: [arrow for arrow in graph.arrows if arrow.end == box.identifier] for box in graph.boxes
    }
    group = ""
    for box in graph.boxes:
        if group and box.group != group:
            yield "end"
        if box.group and box.group != group:
            yield f'subgraph workers_{box.group}["{ON_WORKERS}"]'
        group = box.group
        opening, closing = MERMAID_SHAPES.get(box.kind, ("[", "]"))
        settings = f"({', '.join(box.settings)})" if box.settings else ""
        indent = "    " if group else ""
        yield f'{indent}{box.identifier}{opening}"{_mermaid_text(box.name + settings)}"{closing}'
        for arrow in arrows_into[box.identifier]:
            yield f"{indent}{arrow.start} {'-->' if arrow.goes_on else f'-. {GOES_NO_FURTHER} .->'} {arrow.end}"


def _mermaid_text(text: str) -> str:
    """Escapes what Mermaid takes for something else in a quoted text: quotes, entities, tags, Markdown."""
    codes = {character: f"#{ord(character)};" for character in '#"<>&`'}
    return "<br/>".join("".join(codes.get(character, character) for character in line) for line in text.splitlines())


class _Place:
    """Where a box lies.

    Attributes:
        center: Its middle, in pixels from the left.
        top: Its upper edge.
    """

    def __init__(self, center: float, top: float, width: float, height: float) -> None:
        self.center = center
        self.top = top
        self.width = width
        self.height = height

    @property
    def left(self) -> float:
        return self.center - self.width / 2

    @property
    def right(self) -> float:
        return self.center + self.width / 2

    @property
    def bottom(self) -> float:
        return self.top + self.height


def _placed(graph: PlanGraph) -> dict[str, _Place]:
    """Lays the boxes out: ranks below one another, lanes side by side, all lanes of one width."""
    widths = {box.identifier: _width(box) for box in graph.boxes}
    pitch = max(widths.values(), default=0.0) + LANE_GAP
    first_lane = min((box.lane for box in graph.boxes), default=0.0)
    placed, top = {}, MARGIN
    for rank in range(max((box.rank for box in graph.boxes), default=-1) + 1):
        row = [box for box in graph.boxes if box.rank == rank]
        for box in row:
            center = MARGIN + (box.lane - first_lane) * pitch + (pitch - LANE_GAP) / 2
            placed[box.identifier] = _Place(center, top, widths[box.identifier], _height(box))
        top += max(map(_height, row)) + RANK_GAP
    return placed


def _width(box: Box) -> float:
    texts = [len(box.name) * NAME_SIZE, *(len(setting) * SETTING_SIZE for setting in box.settings)]
    return max(texts) * CHARACTER + 2 * PADDING


def _height(box: Box) -> float:
    return 30.0 + (4.0 + 15.0 * len(box.settings) if box.settings else 0.0)


def _box_lines(box: Box, place: _Place) -> Iterator[str]:
    filling, border = COLORS[box.kind]
    radius = (
        place.height / 2 if box.kind in ("source", "copy") and not box.settings else 12 if box.kind == "source" else 4
    )
    strong = ' stroke-width="2"' if box.kind in ("join", "duplicate") else ""
    yield (
        f'  <rect x="{_n(place.left)}" y="{_n(place.top)}" width="{_n(place.width)}" height="{_n(place.height)}" '
        f'rx="{_n(radius)}" fill="{filling}" stroke="{border}"{strong}/>'
    )
    middle = f'x="{_n(place.center)}" text-anchor="middle" fill="{TEXT}"'
    yield (
        f'  <text {middle} y="{_n(place.top + 20)}" font-size="{_n(NAME_SIZE)}" font-weight="600">'
        f"{escape(box.name)}</text>"
    )
    for number, setting in enumerate(box.settings):
        y = _n(place.top + 38 + 15 * number)
        yield f'  <text {middle} y="{y}" font-size="{_n(SETTING_SIZE)}">{escape(setting)}</text>'


def _frames(graph: PlanGraph, placed: dict[str, _Place]) -> Iterator[str]:
    """Draws a frame around the operators that run on the workers of one source."""
    for group in dict.fromkeys(box.group for box in graph.boxes if box.group):
        places = [placed[box.identifier] for box in graph.boxes if box.group == group]
        left, top = min(place.left for place in places) - 10, places[0].top - 22
        right, bottom = max(place.right for place in places) + 10, places[-1].bottom + 10
        yield (
            f'  <rect x="{_n(left)}" y="{_n(top)}" width="{_n(right - left)}" height="{_n(bottom - top)}" rx="8" '
            f'fill="none" stroke="{LINES}" stroke-dasharray="2 3"/>'
        )
        yield (
            f'  <text x="{_n(left + 8)}" y="{_n(top + 14)}" font-size="{_n(SETTING_SIZE)}" fill="{LINES}">'
            f"{ON_WORKERS}</text>"
        )


def _arrows(graph: PlanGraph, placed: dict[str, _Place]) -> Iterator[str]:
    """Draws the arrows: down the lane that one leaves, and across to the other just above the box that it enters."""
    for arrow in graph.arrows:
        start, end = placed[arrow.start], placed[arrow.end]
        left = _port(arrow, [other for other in graph.arrows if other.start == arrow.start], placed, at_end=False)
        entered = _port(arrow, [other for other in graph.arrows if other.end == arrow.end], placed, at_end=True)
        turn = end.top - RANK_GAP / 2
        across = f" V {_n(turn)} H {_n(entered)}" if left != entered else ""
        dashed = "" if arrow.goes_on else ' stroke-dasharray="5 4"'
        yield (
            f'  <path d="M {_n(left)} {_n(start.bottom)}{across} V {_n(end.top - 1)}" fill="none" stroke="{LINES}" '
            f'stroke-width="1.5"{dashed} marker-end="url(#arrow)"/>'
        )
        if not arrow.goes_on:
            yield (
                f'  <text x="{_n(left + 6)}" y="{_n(start.bottom + 14)}" font-size="{_n(SETTING_SIZE)}" '
                f'fill="{LINES}">{GOES_NO_FURTHER}</text>'
            )


def _port(arrow: Arrow, siblings: Sequence[Arrow], placed: dict[str, _Place], *, at_end: bool) -> float:
    """Returns where an arrow touches a box that several touch: side by side, in the order of where they come from."""
    place = placed[arrow.end if at_end else arrow.start]
    ordered = sorted(siblings, key=lambda other: placed[other.start if at_end else other.end].center)
    apart = min(36.0, place.width / (len(ordered) + 1))
    return place.center + (ordered.index(arrow) - (len(ordered) - 1) / 2) * apart


def _n(number: float) -> str:
    return f"{round(number, 1):g}"
