"""Manifest of a checkpoint: metadata, and the size and SHA-256 digest of every other file.

The first line holds the SHA-256 digest of the manifest itself, computed with 64 zeros in place of the digest, so that a
flipped bit in the manifest is detected too. This line, `format` and `format_version` are the same in every version of
the format; everything else may change.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import re
import stat
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

from rlrun.engine.checkpoint.own_digest import digest_is_right, with_digest
from rlrun.engine.checkpoint.state_codec import decode, encode
from rlrun.engine.messages.errors import CheckpointCorrupt, CheckpointError

MANIFEST_FILE = "manifest.json"
FORMAT = "rlrun checkpoint"
FORMAT_VERSION = 1
"""Version of the checkpoint format."""
OWN_KEYS = ("manifest_sha256", "format", "format_version", "rlrun_version", "created", "files")
"""Manifest keys that the format reserves; metadata of the training must have other keys."""

_MAX_BYTES = 16_000_000
_HEAD = b'{\n  "manifest_sha256": "'
_FILE_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]*(/[A-Za-z0-9_-][A-Za-z0-9_.-]*)*")
_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class FileDigest:
    """Manifest entry of one file in a checkpoint.

    Attributes:
        size: Length of the file in bytes.
        sha256: SHA-256 digest of the file, hexadecimal.
    """

    size: int
    sha256: str


@dataclass(frozen=True)
class Manifest:
    """Content of a checkpoint's manifest.

    Attributes:
        about: Metadata of the training, such as name, spaces and counters.
        files: Entries of all other files by relative path.
        rlrun_version: Version of rlrun that wrote the checkpoint.
        created: Time of writing in UTC, as ISO 8601.
        digest: SHA-256 digest of the manifest, which contains the digests of all other files.
    """

    about: dict[str, Any]
    files: dict[str, FileDigest]
    rlrun_version: str
    created: str
    digest: str


def manifest_bytes(about: dict[str, Any], files: dict[str, FileDigest]) -> bytes:
    """Serializes a checkpoint's manifest to text that includes the text's own digest.

    Raises:
        CheckpointError: A value in `about` cannot be stored.
    """
    taken = sorted(set(about) & set(OWN_KEYS))
    if taken:
        raise ValueError(f"the manifest keys {taken} are reserved")
    content = {
        "manifest_sha256": "0" * 64,
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "rlrun_version": rlrun_version(),
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        **encode(about, None, "manifest"),
        "files": {name: {"bytes": entry.size, "sha256": entry.sha256} for name, entry in sorted(files.items())},
    }
    return with_digest(json.dumps(content, indent=2, allow_nan=False).encode() + b"\n")


def read_manifest(directory: Path) -> Manifest:
    """Loads and verifies a checkpoint's manifest, without reading the other files.

    Raises:
        CheckpointError: The directory is not a checkpoint, cannot be read, or was written by a newer rlrun.
        CheckpointCorrupt: The manifest is missing or altered.
    """
    if not directory.is_dir():
        raise CheckpointError(f"{directory}: {'not a directory' if directory.exists() else 'does not exist'}")
    raw = _raw_manifest(directory)
    if not digest_is_right(raw, _HEAD):
        if not raw.startswith(_HEAD) and not _looks_like_checkpoint(directory):
            raise CheckpointError(f"{directory}: not a checkpoint: its {MANIFEST_FILE} is not a checkpoint's manifest")
        raise CheckpointCorrupt(f"{directory}: {MANIFEST_FILE} is truncated or altered")
    try:
        return _parsed(directory, json.loads(raw))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise CheckpointCorrupt(f"{directory}: cannot parse {MANIFEST_FILE}: {error}") from error


@cache
def rlrun_version() -> str:
    """Version of the installed rlrun."""
    try:
        return importlib.metadata.version("rlrun")
    except importlib.metadata.PackageNotFoundError:  # run from a source tree that is on the path but not installed
        return "unknown"


def is_file_name(name: str) -> bool:
    """Whether a name is allowed for a file in a manifest: a relative path inside the directory, with no hidden part."""
    return _FILE_NAME.fullmatch(name) is not None


def _raw_manifest(directory: Path) -> bytes:
    path = directory / MANIFEST_FILE
    try:
        status = path.lstat()
    except FileNotFoundError:
        if _looks_like_checkpoint(directory):
            raise CheckpointCorrupt(f"{directory}: {MANIFEST_FILE} is missing") from None
        raise CheckpointError(f"{directory}: not a checkpoint: it has no {MANIFEST_FILE}") from None
    except OSError as error:
        raise CheckpointError(f"{path}: cannot read: {error.strerror}") from error
    if not stat.S_ISREG(status.st_mode):
        raise CheckpointCorrupt(f"{directory}: {MANIFEST_FILE} is not a regular file")
    if status.st_size > _MAX_BYTES:
        raise CheckpointCorrupt(f"{directory}: {MANIFEST_FILE} is too large: {status.st_size} bytes")
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            return file.read()
    except OSError as error:
        raise CheckpointError(f"{path}: cannot read: {error.strerror}") from error


def _looks_like_checkpoint(directory: Path) -> bool:
    """Whether a directory without a manifest resembles a damaged checkpoint."""
    return (directory / "state.json").exists() or (directory / "state.npz").exists()


def _parsed(directory: Path, data: dict[str, Any]) -> Manifest:
    if data["format"] != FORMAT:
        raise CheckpointError(f"{directory}: not a checkpoint: {MANIFEST_FILE} has the format {data['format']!r:.80}")
    if data["format_version"] != FORMAT_VERSION:
        raise CheckpointError(
            f"{directory}: written by rlrun {data['rlrun_version']} in format version {data['format_version']}, "
            f"but this rlrun {rlrun_version()} reads only format version {FORMAT_VERSION}"
        )
    files = {}
    for name, entry in data["files"].items():
        size, digest = entry["bytes"], entry["sha256"]
        if not is_file_name(name) or name == MANIFEST_FILE:
            raise ValueError(f"{name!r:.80} is not a valid file name in a checkpoint")
        if type(size) is not int or size < 0 or not _SHA256.fullmatch(digest):
            raise ValueError(f"{name!r} has an invalid size or sha256")
        files[name] = FileDigest(size, digest)
    return Manifest(
        about=decode({key: value for key, value in data.items() if key not in OWN_KEYS}, ()),
        files=files,
        rlrun_version=str(data["rlrun_version"]),
        created=str(data["created"]),
        digest=str(data["manifest_sha256"]),
    )
