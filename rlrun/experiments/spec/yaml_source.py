"""Safe parsing of YAML files with source positions.

The rules are YAML 1.2's (``1e-4`` is a number, ``on`` is a string), and digits may be grouped by underscores
(``150_000``). The data consists only of mappings, lists, strings, numbers, booleans and null; the line and column of
every value are recorded.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import yaml

from rlrun.engine.messages.errors import Problem, SpecError
from rlrun.engine.messages.explain import Location
from rlrun.experiments.spec.yaml_nodes import Composer, NodeReader, Place

MAX_BYTES = 512 * 1024
"""Maximum size of a file."""
_PLAIN_WORDS = [  # beginnings of PyYAML's messages, and explanations for authors of specs
    (
        "mapping values are not allowed",
        "unexpected ':': check the indentation and any ':' before it, or quote the text",
    ),
    ("could not find expected ':'", "a ':' is missing after a key on this line or the line above"),
    ("expected <block end>", "this line is indented differently from the lines above, or a ':' is missing"),
    ("expected ',' or ']', but got '<", "unclosed ["),
    ("expected ',' or '}', but got '<", "unclosed {"),
    ("expected the node content", "a value is missing before this"),
    ("found character '\\t'", "a tab is not allowed: indent with spaces"),
    ("found character", "a text that starts with this character must be quoted"),
    ("found unexpected end of stream", "unclosed quote"),
    ("second occurrence", "an anchor (&) with this name appears twice"),
]


@dataclass
class Document:
    """Parsed YAML file with the source position of each key and value.

    Attributes:
        data: Mappings, lists and scalars.
        file: The file, as named by the user.
        values: Source positions of values by location in the data.
        keys: Source positions of mapping keys, by location of the values.
        problems: Problems in the file other than syntax errors (duplicate keys, tags); such parts are left out of the
            data.
    """

    data: Any
    file: str = ""
    values: dict[Location, Place] = field(default_factory=dict)
    keys: dict[Location, Place] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)

    def place(self, location: Location, *, at_key: bool = False) -> Place:
        """Source position of a value or of its key in the YAML file.

        If the file does not have the location's key, the position is that of its parent: the key of the mapping that
        lacks it, or the bare value that is written in place of a mapping. In ``env: CartPole-v1``, for example, there
        is no key ``id``, so the position of the env's id is that of ``CartPole-v1``.
        """
        places = (self.keys, self.values) if at_key else (self.values, self.keys)
        for known in places:
            if location in known:
                return known[location]
        if not location:
            return Place(self.file)
        return self.place(location[:-1], at_key=isinstance(self.value(location[:-1]), dict | list))

    def value(self, location: Location) -> Any:
        """Value at a location in the data; None if it is missing."""
        value = self.data
        for step in location:
            try:
                value = value[step]
            except (KeyError, IndexError, TypeError):
                return None
        return value

    def put(self, location: Location, value: Any, place: Place) -> None:
        """Sets the value at a location whose parent exists, and discards the old value's source positions."""
        container = self.data
        for step in location[:-1]:
            container = container[step]
        container[location[-1]] = value
        for known in (self.values, self.keys):
            for old in [old for old in known if old[: len(location)] == location]:
                del known[old]
        self.values[location] = self.keys[location] = place


def read_document(path: Path) -> Document:
    """Parses a YAML file into a `Document`.

    Raises:
        FileNotFoundError: The file does not exist.
        SpecError: The file is unreadable, not UTF-8 text, not YAML, nested too deeply, or too large.
    """
    file = str(path)
    try:
        with path.open("rb") as opened:
            content = opened.read(MAX_BYTES + 1)
    except FileNotFoundError:
        raise  # the caller can suggest other names
    except IsADirectoryError:
        raise SpecError([Problem("", "this folder contains no .yaml files", file)]) from None
    except OSError as error:
        raise SpecError([Problem("", f"cannot read: {error.strerror}", file)]) from None
    if len(content) > MAX_BYTES:
        raise SpecError([Problem("", f"is larger than {MAX_BYTES // 1024} KiB, the limit for specs", file)])
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = content[: error.start]
        line, column = before.count(b"\n") + 1, error.start - before.rfind(b"\n")
        message = f"is not UTF-8 text (byte 0x{content[error.start]:02x})"
        raise SpecError([Problem("", message, file, line, column)]) from None
    return parse_document(text, file)


def parse_document(text: str, file: str = "<text>") -> Document:
    """Parses YAML text into a `Document`.

    Args:
        text: The YAML text.
        file: Name of the file in messages.

    Raises:
        SpecError: The text is not YAML, nested too deeply, or too large. Smaller problems are kept in the document and
            reported together with those of the spec.
    """
    bad = yaml.reader.Reader.NON_PRINTABLE.search(text)
    if bad:
        line, column = text.count("\n", 0, bad.start()) + 1, bad.start() - text.rfind("\n", 0, bad.start())
        raise SpecError([Problem("", f"the character {bad.group()!a} is not allowed in YAML", file, line, column)])
    composer = Composer(text, file)
    try:
        node = composer.get_single_node()
    except yaml.MarkedYAMLError as error:
        raise SpecError([_syntax_problem(error, file)]) from None
    except (ValueError, OverflowError):  # from chr() in PyYAML
        message = "YAML syntax: an escape (\\U...) that is not a character"
        raise SpecError([Problem("", message, file, composer.line + 1, composer.column + 1)]) from None
    finally:
        composer.dispose()
    if node is None:
        raise SpecError([Problem("", "is empty", file)])
    reader = NodeReader(file)
    data = reader.value(node, ())
    return Document(data, file, reader.values, reader.keys, reader.problems)


def parse_value(text: str, what: str) -> Any:
    """Parses one value as YAML, such as the right side of ``--set``.

    Args:
        text: The YAML text; empty means null.
        what: Name of the value in messages.

    Raises:
        SpecError: The text is not YAML.
    """
    if not text.strip():
        return None
    try:
        document = parse_document(text, what)
    except SpecError as error:
        problems = list(error.problems)
    else:
        problems = document.problems
    if problems:  # line and column would mislead: the text is from a command line
        raise SpecError([replace(problem, line=0, column=0) for problem in problems])
    return document.data


def _syntax_problem(error: yaml.MarkedYAMLError, file: str) -> Problem:
    """Converts a PyYAML syntax error to a one-line problem, at the later of the error's two positions."""
    problem, mark = error.problem or "", error.problem_mark or error.context_mark
    if "expected a single document" in (error.context or ""):
        message = (
            "a second document starts (---), but a spec must be one document; put each experiment under its own name"
        )
    elif problem.startswith("found undefined alias"):
        message = (
            f"the alias *{problem.rpartition(' ')[2].strip(chr(39))} refers to an anchor (&) that is not defined "
            "above it"
        )
    else:
        plain = next((words for beginning, words in _PLAIN_WORDS if problem.startswith(beginning)), problem)
        message = f"YAML syntax: {plain}"
    return Problem("", message, file, mark.line + 1, mark.column + 1) if mark else Problem("", message, file)
