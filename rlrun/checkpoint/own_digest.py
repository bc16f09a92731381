"""Text files that begin with their own sha256, by which a reader notices that they were altered.

The digest is computed with 64 zeros in its place.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

MAX_BYTES = 16_000_000
"""Bound of the size of a run's files other than results; a sparse file of gigabytes costs its author nothing."""

_BLANK = b"0" * 64
_JSON_HEAD = b'{\n  "sha256": "'
_YAML_HEAD = b"# sha256: "


def json_with_digest(data: Mapping[str, Any]) -> bytes:
    """The text of a JSON file that begins with its own digest."""
    return with_digest(json.dumps({"sha256": _BLANK.decode(), **data}, indent=2, allow_nan=False).encode() + b"\n")


def yaml_with_digest(text: str) -> bytes:
    """The text of a YAML file that begins with its own digest, in a comment."""
    return with_digest(_YAML_HEAD + _BLANK + b"\n" + text.encode())


def without_digest(text: str) -> str:
    """The text passed to `yaml_with_digest`."""
    return text.partition("\n")[2] if text.startswith(_YAML_HEAD.decode()) else text


def read_unaltered(path: Path) -> bytes:
    """Reads a file of a run, and verifies its digest; files of earlier versions have none.

    Raises:
        ValueError: It was altered since rlrun wrote it, is a directory, or is too long.
        FileNotFoundError: It does not exist.
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
    """A deliberately changed text with a new digest, if it has one."""
    for head in (_JSON_HEAD, _YAML_HEAD):
        if raw.startswith(head):
            return with_digest(head + _BLANK + raw[len(head) + len(_BLANK) :])
    return raw


def with_digest(blank: bytes) -> bytes:
    """Replaces the first 64 zeros in a text by its digest."""
    return blank.replace(_BLANK, hashlib.sha256(blank).hexdigest().encode(), 1)


def digest_is_right(raw: bytes, head: bytes) -> bool:
    """Whether a text begins with a head, followed by its own digest."""
    start, end = len(head), len(head) + len(_BLANK)
    blank = head + _BLANK + raw[end:]
    return raw.startswith(head) and hashlib.sha256(blank).hexdigest().encode() == raw[start:end]
