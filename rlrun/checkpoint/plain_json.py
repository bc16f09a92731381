"""JSON from files that may be damaged or crafted."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

T = TypeVar("T")


def load_json(text: str | bytes) -> Any:
    """Parses JSON.

    Raises:
        ValueError: It is no JSON, or nested too deeply.

    Examples:
        >>> load_json('{"a": [1]}')
        {'a': [1]}
    """
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("nested too deep") from None


def read_lines(path: Path, kind: TypeAdapter[T]) -> list[T]:
    """Reads a file with a JSON value per line; [] if there is none. Lines that a kill has truncated are skipped."""
    found = []
    with suppress(FileNotFoundError):
        for line in path.read_bytes().splitlines():
            with suppress(ValueError):
                found.append(kind.validate_python(load_json(line)))
    return found


def first_mistake(error: ValidationError) -> str:
    """The first mistake of data from a file, with its place."""
    mistake = error.errors()[0]
    return ": ".join(filter(None, (".".join(map(str, mistake["loc"])), mistake["msg"])))
