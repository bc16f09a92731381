"""Data as JSON can hold it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any


def plain(data: Any) -> Any:
    """Returns data of which all is JSON-able: NaN and infinities become None, and objects such as paths their text.

    Examples:
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
