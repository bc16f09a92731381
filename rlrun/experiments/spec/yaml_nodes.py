"""Conversion of YAML nodes to Python data: scalars of YAML 1.2's core schema, keys, merges, aliases and tags.

PyYAML composes the nodes; `NodeReader` converts them to plain data and records the source position of every key and
value.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import yaml
from typing_extensions import override

from rlrun.engine.messages.errors import Problem, SpecError
from rlrun.engine.messages.explain import Location, dotted, shown

MAX_DEPTH = 40
"""Maximum nesting depth of mappings and lists."""
MAX_VALUES = 100_000
"""Maximum number of values in a file, with aliases expanded."""

_NULL, _BOOL, _INT, _FLOAT, _STR, _SEQ, _MAP = (
    f"tag:yaml.org,2002:{name}" for name in ("null", "bool", "int", "float", "str", "seq", "map")
)
_DIGITS = "[0-9]+(?:_[0-9]+)*"
_CORE_SCHEMA = [
    (_NULL, re.compile(r"(?:~|null|Null|NULL|)\Z")),
    (_BOOL, re.compile(r"(?:true|True|TRUE|false|False|FALSE)\Z")),
    (_INT, re.compile(rf"(?:[-+]?{_DIGITS}|0o[0-7]+(?:_[0-7]+)*|0x[0-9a-fA-F]+(?:_[0-9a-fA-F]+)*)\Z")),
    (
        _FLOAT,
        re.compile(
            rf"(?:[-+]?(?:\.{_DIGITS}|{_DIGITS}(?:\.(?:{_DIGITS})?)?)(?:[eE][-+]?[0-9]+)?"
            r"|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))\Z"
        ),
    ),
]


class Place(NamedTuple):
    """Source position of a YAML value: file, line and column (from 1); the line is 0 for sources without lines."""

    file: str
    line: int = 0
    column: int = 0

    def problem(self, path: str, message: str) -> Problem:
        """Creates a problem report at this position."""
        return Problem(path, message, self.file, self.line, self.column)


class Composer(yaml.SafeLoader):
    """PyYAML composer with YAML 1.2 scalars and a depth limit, so that deep nesting does not cause a RecursionError."""

    yaml_implicit_resolvers = {None: _CORE_SCHEMA}  # noqa: RUF012

    def __init__(self, text: str, file: str) -> None:
        super().__init__(text)
        self.file = file
        self.depth = 0

    @override
    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        """Composes a YAML node; raises an error beyond the depth limit."""
        self.depth += 1
        if self.depth > MAX_DEPTH:
            mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
            message = f"is nested more than {MAX_DEPTH} levels deep"
            raise SpecError([Problem("", message, self.file, mark.line + 1, mark.column + 1)])
        try:
            return super().compose_node(parent, index)
        finally:
            self.depth -= 1


class NodeReader:
    """Converts YAML nodes to plain data and records source positions; problems are collected and reported together."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.values: dict[Location, Place] = {}
        self.keys: dict[Location, Place] = {}
        self.problems: list[Problem] = []
        self.count = 0
        self.open: set[int] = set()

    def value(self, node: yaml.Node, location: Location) -> Any:
        """Converts a YAML node to plain data.

        Raises:
            SpecError: The aliases of the file are recursive, or expand to too many values.
        """
        place = self.values[location] = _place(node, self.file)
        self.count += 1
        if self.count > MAX_VALUES:
            raise SpecError([place.problem("", f"contains more than {MAX_VALUES:,} values, with aliases expanded")])
        if id(node) in self.open:
            raise SpecError([place.problem(dotted(location), "an alias (*) inside its own value")])
        expected = _MAP if isinstance(node, yaml.MappingNode) else _SEQ if isinstance(node, yaml.SequenceNode) else None
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node, location)
        if node.tag != expected:
            self._refuse_tag(node, location)
            return None
        self.open.add(id(node))
        try:
            if isinstance(node, yaml.MappingNode):
                return self._mapping(node, location)
            return [self.value(item, (*location, index)) for index, item in enumerate(node.value)]
        finally:
            self.open.discard(id(node))

    def _mapping(self, node: yaml.MappingNode, location: Location) -> dict[str, Any]:
        data: dict[str, Any] = {}
        merged: dict[str, tuple[yaml.Node, yaml.Node]] = {}
        for key_node, value_node in node.value:
            if _is_merge(key_node):
                for merged_key, merged_value in self._merged_items(value_node, location):
                    merged.setdefault(merged_key.value, (merged_key, merged_value))
            elif self._is_new_key(key_node, location, data):
                self._put(data, key_node, value_node, location)
        for key, (key_node, value_node) in merged.items():
            if key not in data:  # a mapping's own keys override merged ones
                self._put(data, key_node, value_node, location)
        return data

    def _put(self, data: dict[str, Any], key_node: yaml.Node, value_node: yaml.Node, location: Location) -> None:
        below = (*location, key_node.value)
        self.keys[below] = _place(key_node, self.file)
        data[key_node.value] = self.value(value_node, below)

    def _merged_items(self, node: yaml.Node, location: Location) -> Iterator[tuple[yaml.Node, yaml.Node]]:
        """Yields the items that the merge key ``<<`` includes from a mapping or a list of mappings, in order."""
        self.count += 1
        sources = node.value if isinstance(node, yaml.SequenceNode) else [node]
        for source in sources:
            if not isinstance(source, yaml.MappingNode) or id(source) in self.open:
                place = _place(node, self.file)
                self.problems.append(
                    place.problem(dotted(location), "<< must merge a mapping (*name) or a list of mappings")
                )
                return
            self.open.add(id(source))
            own = [(key, value) for key, value in source.value if not _is_merge(key)]
            yield from ((key, value) for key, value in own if isinstance(key, yaml.ScalarNode) and key.tag == _STR)
            for key, value in source.value:
                if _is_merge(key):
                    yield from self._merged_items(value, location)
            self.open.discard(id(source))

    def _is_new_key(self, node: yaml.Node, location: Location, data: dict[str, Any]) -> bool:
        place, path = _place(node, self.file), dotted(location)
        if not isinstance(node, yaml.ScalarNode):
            self.problems.append(place.problem(path, "a key must be a string, not a list or mapping"))
        elif node.tag != _STR:
            what = (
                f"'{node.value}' must be quoted to be a key, because keys are strings"
                if node.value
                else "a key is missing"
            )
            self.problems.append(place.problem(path, what))
        elif not node.value.isprintable():
            self.problems.append(place.problem(path, f"the key {shown(node.value)} contains non-printable characters"))
        elif node.value in data:
            first = self.keys[(*location, node.value)]
            message = f"the key '{node.value}' appears twice, first on line {first.line}, column {first.column}"
            self.problems.append(place.problem(path, message))
        else:
            return True
        return False

    def _scalar(self, node: yaml.ScalarNode, location: Location) -> Any:
        text, tag = node.value, node.tag
        schema = dict(_CORE_SCHEMA)
        if tag == _STR:
            if any("\ud800" <= character <= "\udfff" for character in text):
                what = "an escape (\\u...) with only half of a surrogate pair"
                self.problems.append(_place(node, self.file).problem("", what))
            return text
        if tag not in schema:
            self._refuse_tag(node, location)
        elif not schema[tag].match(text):
            what = f"{shown(text)} does not match its tag !!{tag.rpartition(':')[2]}"
            self.problems.append(_place(node, self.file).problem(dotted(location), what))
        elif tag == _NULL:
            return None
        elif tag == _BOOL:
            return text.lower() == "true"
        elif tag == _FLOAT:
            return float(text.replace("_", "").lower().replace(".inf", "inf").replace(".nan", "nan"))
        elif len(text) > 400:
            self.problems.append(
                _place(node, self.file).problem(dotted(location), "a number with more than 400 digits")
            )
        else:
            return int(text, {"0o": 8, "0x": 16}.get(text[:2], 10))
        return None

    def _refuse_tag(self, node: yaml.Node, location: Location) -> None:
        tag = node.tag.replace("tag:yaml.org,2002:", "!!")
        message = f"the tag {tag} is not allowed; use only plain YAML values"
        self.problems.append(_place(node, self.file).problem(dotted(location), message))


def _place(node: yaml.Node, file: str) -> Place:
    return Place(file, node.start_mark.line + 1, node.start_mark.column + 1)


def _is_merge(node: yaml.Node) -> bool:
    return isinstance(node, yaml.ScalarNode) and node.value == "<<" and node.style is None
