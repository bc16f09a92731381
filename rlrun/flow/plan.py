"""Prints the plan of a flow as text that reads like the algorithm."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rlrun.flow.flow import OperatorInfo

Plan = Sequence[OperatorInfo]


def plan_text(plan: Plan) -> str:
    """Returns a plan as text, an operator a line; what `concurrently` joins stands indented below it.

    Args:
        plan: What `Flow.describe` returned.

    Examples:
        >>> from rlrun.flow.concurrently import concurrently
        >>> from rlrun.flow.sources.items import from_items
        >>> numbers, same_numbers = from_items([1, 2]).duplicate(2)
        >>> kept = numbers.filter(bool)
        >>> print(plan_text(concurrently(kept, same_numbers.for_each(str), output=kept).describe()))
        concurrently(weights=[1, 1])
        ├─ from_items
        │  -> duplicate(copies=2) #1
        │  -> filter(bool)
        └─ copy 1 of #1
           -> str
           -> (goes no further)
    """
    return "\n".join(_lines(plan, {}))


def _lines(plan: Plan, duplicates: dict[str, str]) -> Iterator[str]:
    """Yields the lines of a chain; a duplicated stream is printed where it is first met and has a number after that."""
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
            lines.append("-> (goes no further)")
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
