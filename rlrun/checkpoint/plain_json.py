"""JSON of files that may be damaged, or a stranger's."""

from __future__ import annotations

import json
from typing import Any


def load_json(text: str | bytes) -> Any:
    """Reads JSON.

    Raises:
        ValueError: If it is no JSON, or nested deeper than any file of rlrun.

    Examples:
        >>> load_json('{"a": [1]}')
        {'a': [1]}
    """
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("nested too deep") from None
