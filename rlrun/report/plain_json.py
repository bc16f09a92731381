"""Conversion of objects to JSON-compatible plain data."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any


def fields_of(item: object, *names: str) -> dict[str, Any]:
    """Attributes of an object as a dict, by attribute name.

    Examples:
        >>> fields_of(1j, "real", "imag")
        {'real': 0.0, 'imag': 1.0}
    """
    return {name: getattr(item, name) for name in names}


def plain(data: Any) -> Any:
    """Converts data to JSON-compatible data: NaN and infinity become None, objects such as paths become text.

    Examples:
        >>> from pathlib import PurePath
        >>> plain({"path": PurePath("a"), "values": (1, float("nan"))})
        {'path': 'a', 'values': [1, None]}
    """
    if isinstance(data, Mapping):
        return {str(key): plain(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [plain(value) for value in data]
    if isinstance(data, float):
        return data if math.isfinite(data) else None
    return data if isinstance(data, bool | int | str) or data is None else str(data)
