"""The sha256 that a text file holds of itself, by which a reader notices that the file was altered.

It is the first thing in the file, and taken with 64 zeros in its own place.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

MAX_BYTES = 16_000_000
"""No file of a run but its results is longer; a sparse file of gigabytes costs its maker nothing."""

_BLANK = b"0" * 64
_JSON_HEAD = b'{\n  "sha256": "'
_YAML_HEAD = b"# sha256: "


def json_with_digest(data: Mapping[str, Any]) -> bytes:
    """Returns the text of a JSON file that begins with its own digest."""
    return with_digest(json.dumps({"sha256": _BLANK.decode(), **data}, indent=2, allow_nan=False).encode() + b"\n")


def yaml_with_digest(text: str) -> bytes:
    """Returns the text of a YAML file that begins with its own digest, in a comment."""
    return with_digest(_YAML_HEAD + _BLANK + b"\n" + text.encode())


def without_digest(text: str) -> str:
    """Returns the text that `yaml_with_digest` was given."""
    return text.partition("\n")[2] if text.startswith(_YAML_HEAD.decode()) else text


def read_unaltered(path: Path) -> bytes:
    """Reads a file of a run; one without a digest, of an earlier version, is believed.

    Raises:
        ValueError: If it was altered since rlrun wrote it, is a directory, or absurdly long.
        FileNotFoundError: If it is not there.
    """
    if path.is_dir():
        raise ValueError("it is a directory")
    with path.open("rb") as file:
        raw = file.read(MAX_BYTES + 1)
    if len(raw) > MAX_BYTES:
        raise ValueError(f"it is longer than {MAX_BYTES:,} bytes")
    for head in (_JSON_HEAD, _YAML_HEAD):
        if raw.startswith(head) and not digest_is_right(raw, head):
            raise ValueError("it was altered: its sha256 is another one than its first lines say")
    return raw


def with_new_digest(raw: bytes) -> bytes:
    """Returns a text that was changed on purpose with the digest that it has now, if it holds any."""
    for head in (_JSON_HEAD, _YAML_HEAD):
        if raw.startswith(head):
            return with_digest(head + _BLANK + raw[len(head) + len(_BLANK) :])
    return raw


def with_digest(blank: bytes) -> bytes:
    """Puts the digest of a text in the place of the first 64 zeros in it."""
    return blank.replace(_BLANK, hashlib.sha256(blank).hexdigest().encode(), 1)


def digest_is_right(raw: bytes, head: bytes) -> bool:
    """Whether a text begins like this, and goes on with its own digest."""
    start, end = len(head), len(head) + len(_BLANK)
    blank = head + _BLANK + raw[end:]
    return raw.startswith(head) and hashlib.sha256(blank).hexdigest().encode() == raw[start:end]
