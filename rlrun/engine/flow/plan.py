"""Conversion of a dataflow's plan to text or to a Mermaid flowchart."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rlrun.engine.flow.flow import OperatorInfo

Plan = Sequence[OperatorInfo]

_SHAPES = {
    "source": ("([", "])"),
    "duplicate": ("[/", "\\]"),
    "copy": ("(", ")"),
    "concurrently": ("{{", "}}"),
    "followed_by": ("{{", "}}"),
}
"""Brackets around a node of a Mermaid flowchart, by its kind; a plain box for all other kinds."""


def plan_text(plan: Plan) -> str:
    """Converts a plan to text, one operator per line; branches of `concurrently` are indented below it.

    Args:
        plan: A plan from `Flow.describe`.

    Examples:
        >>> from rlrun.engine.flow.concurrently import concurrently
        >>> from rlrun.engine.flow.sources.items import from_items
        >>> numbers, same_numbers = from_items([1, 2]).duplicate(2)
        >>> kept = numbers.filter(bool)
        >>> print(plan_text(concurrently(kept, same_numbers.for_each(str), output=kept).describe()))
        concurrently(weights=[1, 1])
        ├─ from_items
        │  -> duplicate(copies=2) #1
        │  -> filter(bool)
        └─ copy 1 of #1
           -> str
           -> (ends here)
    """
    return "\n".join(_lines(plan, {}))


def plan_mermaid(plan: Plan) -> str:
    """Converts a plan to a Mermaid flowchart; branches whose items are dropped end in dotted arrows.

    Args:
        plan: A plan from `Flow.describe`.

    Examples:
        >>> from rlrun.engine.flow.sources.items import from_items
        >>> print(plan_mermaid(from_items([1, 2]).for_each(str).describe()))
        flowchart TD
            n0(["from_items"])
            n1["str"]
            n0 --> n1
    """
    chart = _Flowchart()
    chart.add_chain(plan)
    return "\n".join(["flowchart TD", *(f"    {line}" for line in chart.lines)])


def _lines(plan: Plan, duplicates: dict[str, str]) -> Iterator[str]:
    """Yields the lines of a chain of operators; a duplicated stream is printed once, then referred to by its number."""
    met = max((step for step, info in enumerate(plan) if info.path in duplicates), default=None)
    first = 0
    if met is not None:
        first = met + 1  # the copy
        yield f"copy {plan[first].settings['index']} of {duplicates[plan[met].path]}"
    for step, info in enumerate(plan):
        if (met is not None and step <= first) or info.kind == "copy":
            continue
        mark = ""
        if info.kind == "duplicate":
            duplicates[info.path] = f"#{len(duplicates) + 1}"
            mark = f" {duplicates[info.path]}"
        yield f"{'-> ' if step else ''}{_call(info)}{mark}"
        yield from (f"   on each worker: {_named(*operator)}" for operator in info.on_workers)
        yield from _branch_lines(info, duplicates)


def _branch_lines(info: OperatorInfo, duplicates: dict[str, str]) -> Iterator[str]:
    for number, branch in enumerate(info.branches):
        corner, edge = ("└─ ", "   ") if number == len(info.branches) - 1 else ("├─ ", "│  ")
        lines = list(_lines(branch, duplicates))
        if number not in info.settings["output"]:
            lines.append("-> (ends here)")
        yield corner + lines[0]
        yield from (edge + line for line in lines[1:])


def _call(info: OperatorInfo) -> str:
    if info.kind == "filter":
        return f"filter({_named(info.name, info.settings)})"
    shown = {name: value for name, value in info.settings.items() if not (info.branches and name == "output")}
    return _named(info.name, shown)


def _named(name: str, settings: Mapping[str, Any]) -> str:
    arguments = ", ".join(f"{setting}={value}" for setting, value in settings.items())
    return f"{name}({arguments})" if arguments else name


class _Flowchart:
    """A Mermaid flowchart, with upstream nodes first; a stream that several branches copy is drawn once.

    Attributes:
        lines: The lines, without the first one, which names the kind of chart.
    """

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._nodes = 0
        self._by_path: dict[str, str] = {}

    def add_chain(self, plan: Plan) -> str:
        """Adds a chain and the branches that join at its head; returns its last node."""
        last = ""
        for info in plan:
            if info.path not in self._by_path:
                arrows = {last: "-->"} if last else {}
                for number, branch in enumerate(info.branches):
                    goes_on = number in info.settings["output"]
                    arrows[self.add_chain(branch)] = "-->" if goes_on else "-. ends here .->"
                self._by_path[info.path] = self._add_step(info, arrows)
            last = self._by_path[info.path]
        return last

    def _add_step(self, info: OperatorInfo, arrows: Mapping[str, str]) -> str:
        """Adds an operator (for a source, first its operators on the workers); returns the flowchart node."""
        if info.on_workers:
            self.lines.append(f'subgraph workers_n{self._nodes + len(info.on_workers)}["on each worker"]')
            for operator in info.on_workers:
                arrows = {self._add(_named(*operator), ("[", "]"), arrows, "    "): "-->"}
            self.lines.append("end")
        text = f"copy {info.settings['index']}" if info.kind == "copy" else _call(info)
        return self._add(text, _SHAPES.get(info.kind, ("[", "]")), arrows)

    def _add(self, text: str, shape: tuple[str, str], arrows: Mapping[str, str], indent: str = "") -> str:
        node = f"n{self._nodes}"
        self._nodes += 1
        self.lines.append(f'{indent}{node}{shape[0]}"{_escaped(text)}"{shape[1]}')
        self.lines += [f"{indent}{start} {arrow} {node}" for start, arrow in arrows.items()]
        return node


def _escaped(text: str) -> str:
    """Escapes characters with a meaning in Mermaid's quoted text: quotes, entities, tags, Markdown."""
    codes = {character: f"#{ord(character)};" for character in '#"<>&`'}
    return "<br/>".join("".join(codes.get(character, character) for character in line) for line in text.splitlines())
