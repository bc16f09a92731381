"""Parser of JSON files that may be damaged or malicious."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

T = TypeVar("T")


def load_json(text: str | bytes) -> Any:
    """Parses JSON text, which may come from an untrusted source.

    Raises:
        ValueError: The text is not JSON, or nested too deeply.

    Examples:
        >>> load_json('{"a": [1]}')
        {'a': [1]}
    """
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def read_lines(path: Path, kind: TypeAdapter[T]) -> list[T]:
    """Loads the valid lines of a file with one JSON value per line, as a list; [] if there is no file."""
    found = []
    with suppress(FileNotFoundError):
        for line in path.read_bytes().splitlines():
            with suppress(ValueError):
                found.append(kind.validate_python(load_json(line)))
    return found


def first_mistake(error: ValidationError) -> str:
    """Returns the first mistake that pydantic found in data from a file, and its location, as text."""
    mistake = error.errors()[0]
    return ": ".join(filter(None, (".".join(map(str, mistake["loc"])), mistake["msg"])))
