"""JSON from files that may be damaged or crafted."""

from __future__ import annotations

import json
from typing import Any


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
