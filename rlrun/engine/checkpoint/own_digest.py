"""Text files that begin with their own SHA-256 digest, to detect alterations.

The digest is computed with 64 zeros in its place.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

MAX_BYTES = 16_000_000
"""Maximum size in bytes of a run's files other than results, as a protection against huge sparse files."""

_BLANK = b"0" * 64
_JSON_HEAD = b'{\n  "sha256": "'
_YAML_HEAD = b"# sha256: "


def json_with_digest(data: Mapping[str, Any]) -> bytes:
    """Serializes data to JSON text that begins with its own digest."""
    return with_digest(json.dumps({"sha256": _BLANK.decode(), **data}, indent=2, allow_nan=False).encode() + b"\n")


def yaml_with_digest(text: str) -> bytes:
    """Prepends a comment with the digest to YAML text."""
    return with_digest(_YAML_HEAD + _BLANK + b"\n" + text.encode())


def without_digest(text: str) -> str:
    """Removes the digest that `yaml_with_digest` prepended to a text."""
    return text.partition("\n")[2] if text.startswith(_YAML_HEAD.decode()) else text


def read_verified(path: Path) -> bytes:
    """Loads a text file that rlrun wrote in a run's folder, after verifying its digest.

    Raises:
        ValueError: The file was altered since rlrun wrote it, is a directory, or is too long.
        FileNotFoundError: The file does not exist.
    """
    if path.is_dir():
        raise ValueError("it is a directory")
    with path.open("rb") as file:
        raw = file.read(MAX_BYTES + 1)
    if len(raw) > MAX_BYTES:
        raise ValueError(f"it is larger than {MAX_BYTES:,} bytes")
    for head in (_JSON_HEAD, _YAML_HEAD):
        if raw.startswith(head) and not digest_is_right(raw, head):
            raise ValueError("it was altered: its sha256 differs from the one in its first lines")
    return raw


def with_new_digest(raw: bytes) -> bytes:
    """Recomputes the digest of a text that was edited on purpose; a text without a digest is returned unchanged."""
    for head in (_JSON_HEAD, _YAML_HEAD):
        if raw.startswith(head):
            return with_digest(head + _BLANK + raw[len(head) + len(_BLANK) :])
    return raw


def with_digest(blank: bytes) -> bytes:
    """Replaces the first 64 zeros in a text with the text's digest."""
    return blank.replace(_BLANK, hashlib.sha256(blank).hexdigest().encode(), 1)


def digest_is_right(raw: bytes, head: bytes) -> bool:
    """Whether a text begins with a given prefix, followed by a correct digest of the text."""
    start, end = len(head), len(head) + len(_BLANK)
    blank = head + _BLANK + raw[end:]
    return raw.startswith(head) and hashlib.sha256(blank).hexdigest().encode() == raw[start:end]
