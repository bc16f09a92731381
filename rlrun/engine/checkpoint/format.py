"""On-disk format of checkpoints: directories that are written atomically, verified before reading, and contain no code.

    manifest.json                 metadata, and the size and sha256 of every file    (see manifest.py)
    spec.yaml                     the resolved spec                                   (see plain_yaml.py)
    policies/default.safetensors  named tensors, one file per stem of `Content.tensors`
    state.json, state.npz         everything else, and the arrays in it               (see state_codec.py)

The digests are needed since safetensors loads most files with a flipped bit or a zero-filled tail without an error.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
import stat
import zipfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from io import BufferedReader
from pathlib import Path
from typing import Any

import numpy as np

from rlrun.engine.checkpoint.durable import commit_directory, explained_full_disk, megabytes, partial_name
from rlrun.engine.checkpoint.manifest import (
    MANIFEST_FILE,
    FileDigest,
    Manifest,
    is_file_name,
    manifest_bytes,
    read_manifest,
)
from rlrun.engine.checkpoint.plain_yaml import MAX_BYTES as MAX_SPEC_BYTES
from rlrun.engine.checkpoint.plain_yaml import dump_plain_yaml, load_plain_yaml
from rlrun.engine.checkpoint.state_codec import decode, encode
from rlrun.engine.messages.errors import CheckpointCorrupt, CheckpointError

SPEC_FILE = "spec.yaml"
STATE_FILE = "state.json"
ARRAYS_FILE = "state.npz"
TENSORS_SUFFIX = ".safetensors"

MOST_SPARSE_BYTES = 64_000_000
SPARSE_FACTOR = 100
"""Maximum ratio of a file's length to its bytes on disk; a sparse file takes little disk space, but much memory."""

# The file browser of macOS creates this file, which rlrun never reads.
_IGNORED = frozenset({".DS_Store"})


@dataclass(frozen=True)
class Content:
    """Content of a checkpoint.

    Attributes:
        manifest: Metadata of the training, such as name, spaces and counters; no arrays.
        spec: The resolved spec as plain data.
        tensors: Named arrays of each tensor file, by the file's path without suffix, such as ``policies/default``.
        state: Everything else, as nested dicts with string keys, lists and tuples of strings, numbers, booleans, None
            and arrays.
    """

    manifest: dict[str, Any]
    spec: dict[str, Any]
    tensors: dict[str, dict[str, np.ndarray[Any, Any]]] = field(default_factory=dict)
    state: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class StagedCheckpoint:
    """Checkpoint that has been written completely under a temporary name and awaits its rename to the final path.

    Attributes:
        directory: Final path of the checkpoint.
        partial: Temporary path of the checkpoint.
        size: Size of the checkpoint in bytes.
    """

    directory: Path
    partial: Path
    size: int

    def commit(self) -> Path:
        """Syncs the checkpoint and renames it to its final path, replacing an existing checkpoint.

        Returns:
            Final path of the checkpoint.

        Raises:
            OutOfResources: The disk is full. The message gives the needed and the free space. No files are left.
            CheckpointError: The temporary files are gone.
        """
        with _removing_on_failure(self.partial), explained_full_disk(self.directory, lambda: self.size):
            commit_directory(self.partial, self.directory)
        return self.directory


def write_checkpoint(directory: Path, content: Content) -> Path:
    """Writes a checkpoint atomically, replacing an existing checkpoint.

    Returns:
        The directory.

    Raises:
        OutOfResources: The disk is full. The message gives the needed and the free space. No files are left.
        CheckpointError: The content cannot be stored, or the path exists and is not a checkpoint.
    """
    return stage_checkpoint(directory, content, dump_plain_yaml(content.spec)).commit()


def stage_checkpoint(directory: Path, content: Content, spec: str) -> StagedCheckpoint:
    """Writes the files of a checkpoint under a temporary name; the slow sync to disk is left to `commit`.

    Args:
        directory: Final path of the checkpoint.
        content: Content of the checkpoint.
        spec: The content's spec as text from `dump_plain_yaml`.

    Raises:
        OutOfResources: The disk is full. The message gives the needed and the free space. No files are left.
        CheckpointError: The content cannot be stored, or the path exists and is not a checkpoint.
    """
    directory = Path(directory)
    _refuse_foreign_files(directory)
    arrays: list[np.ndarray[Any, Any]] = []
    state = json.dumps(encode(content.state, arrays), allow_nan=False).encode()
    texts = {SPEC_FILE: spec.encode(), STATE_FILE: state}
    names = [f"{stem}{TENSORS_SUFFIX}" for stem in content.tensors]
    for name in names:
        if not is_file_name(name):
            raise ValueError(f"{name!r} is not a valid file name in a checkpoint")
    if len({name.casefold() for name in names}) < len(names):  # some file systems ignore case
        raise ValueError(f"file names in a checkpoint must not differ only in case: {sorted(names)}")
    tensors = [array for named in content.tensors.values() for array in named.values()]
    size = sum(map(len, texts.values())) + sum(array.nbytes for array in (*arrays, *tensors))

    partial = partial_name(directory)
    with _removing_on_failure(partial), explained_full_disk(directory, lambda: size):
        directory.parent.mkdir(parents=True, exist_ok=True)
        partial.mkdir()
        files = {name: _write(partial / name, data) for name, data in texts.items()}
        files[ARRAYS_FILE] = _write_arrays(partial / ARRAYS_FILE, arrays)
        for stem, named in content.tensors.items():
            name = f"{stem}{TENSORS_SUFFIX}"
            files[name] = _write(partial / name, _tensor_bytes(named, stem))
        _write(partial / MANIFEST_FILE, manifest_bytes(content.manifest, files))
    return StagedCheckpoint(directory, partial, size)


def read_checkpoint(directory: Path) -> Content:
    """Loads a checkpoint after verifying all its files.

    Raises:
        CheckpointCorrupt: A file is missing, added, truncated or altered; the message names each such file.
        CheckpointError: The directory is not a checkpoint, cannot be read, or was written by a newer rlrun.
    """
    directory = Path(directory)
    with ExitStack() as stack:
        manifest, files = _verified(directory, stack)
        name = ""
        try:
            name = SPEC_FILE
            spec = _read_spec(files[SPEC_FILE])
            name = ARRAYS_FILE
            arrays = _read_arrays(files[ARRAYS_FILE])
            name = STATE_FILE
            state = decode(json.load(files[STATE_FILE]), arrays)
            if not isinstance(state, dict):
                raise ValueError("not a mapping")
            tensors = {}
            for name in manifest.files:
                if name.endswith(TENSORS_SUFFIX):
                    tensors[name.removesuffix(TENSORS_SUFFIX)] = _read_tensors(files[name])
        except Exception as error:  # the digests match, so this is a bug or a crafted file
            raise CheckpointCorrupt(f"{directory}: cannot parse {name}: {error}") from error
    return Content(manifest.about, spec, tensors, state)


def verify_checkpoint(directory: Path) -> Manifest:
    """Verifies the size and digest of all files of a checkpoint against the manifest, without parsing the files.

    Raises:
        CheckpointCorrupt: A file is missing, added, truncated or altered; the message names each such file.
        CheckpointError: The directory is not a checkpoint, cannot be read, or was written by a newer rlrun.
    """
    with ExitStack() as stack:
        return _verified(Path(directory), stack)[0]


def is_checkpoint(directory: Path) -> bool:
    """Whether a directory is a checkpoint, intact or damaged."""
    try:
        read_manifest(directory)
    except CheckpointCorrupt:
        return True
    except CheckpointError:
        return False
    return True


def _refuse_foreign_files(directory: Path) -> None:
    if directory.is_symlink() or (directory.exists() and not directory.is_dir()):
        raise CheckpointError(f"{directory}: already exists and is not a checkpoint, so it is not overwritten")
    if directory.is_dir() and any(directory.iterdir()) and not is_checkpoint(directory):
        raise CheckpointError(
            f"{directory}: already exists, contains files and is not a checkpoint, so it is not overwritten"
        )


@contextmanager
def _removing_on_failure(partial: Path) -> Iterator[None]:
    """Context manager that removes a partial checkpoint on failure.

    Raises:
        CheckpointError: A file that was being written is gone.
    """
    try:
        yield
    except FileNotFoundError as error:
        shutil.rmtree(partial, ignore_errors=True)
        raise CheckpointError(
            f"{error.filename} was removed while it was being written: do not touch the checkpoints of a running trial"
        ) from None
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise


def _write(path: Path, data: bytes) -> FileDigest:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("xb") as file:
        file.write(data)
    return FileDigest(len(data), hashlib.sha256(data).hexdigest())


def _write_arrays(path: Path, arrays: list[np.ndarray[Any, Any]]) -> FileDigest:
    """Writes arrays as "0", "1", ... directly to disk, since a copy in memory may not fit."""
    with path.open("x+b") as file:
        np.savez(file, allow_pickle=False, **{str(index): array for index, array in enumerate(arrays)})
        size = file.seek(0, os.SEEK_END)
        file.seek(0)
        return FileDigest(size, hashlib.file_digest(file, "sha256").hexdigest())


def _tensor_bytes(named: dict[str, np.ndarray[Any, Any]], stem: str) -> bytes:
    from safetensors import SafetensorError
    from safetensors.numpy import save

    # safetensors stores the raw memory: arrays in Fortran order or with strides would be scrambled.
    plain = {name: np.asarray(array, order="C") for name, array in named.items()}
    try:
        data: bytes = save(plain)
    except (SafetensorError, KeyError) as error:
        raise CheckpointError(f"{stem}: cannot be stored: {error}") from error
    return data


def _verified(directory: Path, stack: ExitStack) -> tuple[Manifest, dict[str, BufferedReader]]:
    """Context manager that verifies all files of a checkpoint, and yields the manifest and the open files.

    The caller reads from the same open files that were verified, even if they have been replaced in the meantime.
    """
    manifest = read_manifest(directory)
    for name in (SPEC_FILE, STATE_FILE, ARRAYS_FILE):
        if name not in manifest.files:
            raise CheckpointCorrupt(f"{directory}: {MANIFEST_FILE} does not list {name}")
    try:
        present = _sizes(directory)
        problems = [f"{name} is missing" for name in manifest.files if name not in present]
        problems += [f"{name} does not belong to the checkpoint" for name in present if name not in manifest.files]
        problems += [
            f"{name} is truncated: it has {present[name]} of {entry.size} bytes"
            if present[name] < entry.size
            else f"{name} is too long: it has {present[name]} bytes instead of {entry.size}"
            for name, entry in manifest.files.items()
            if name in present and present[name] != entry.size
        ]
        if problems:
            raise CheckpointCorrupt(f"{directory}: {'; '.join(problems)}")
        files: dict[str, BufferedReader] = {}
        for name, entry in manifest.files.items():
            descriptor = os.open(directory / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
            files[name] = stack.enter_context(os.fdopen(descriptor, "rb"))
            if entry.size > MOST_SPARSE_BYTES + SPARSE_FACTOR * _bytes_on_disk(descriptor, entry.size):
                problems.append(f"{name} is a sparse file: most of its {megabytes(entry.size)} are not on disk")
                continue
            if hashlib.file_digest(files[name], "sha256").hexdigest() != entry.sha256:
                problems.append(f"{name} was altered: its sha256 differs from the one in {MANIFEST_FILE}")
            files[name].seek(0)
    except OSError as error:
        raise CheckpointError(f"{error.filename or directory}: cannot read: {error.strerror}") from error
    if problems:
        raise CheckpointCorrupt(f"{directory}: {'; '.join(problems)}")
    return manifest, files


def _bytes_on_disk(descriptor: int, size: int) -> int:
    """Returns the bytes that a file occupies on disk, without holes; its size if the file system reports no holes."""
    found = place = 0
    try:
        while place < size:
            begin = os.lseek(descriptor, place, os.SEEK_DATA)
            place = os.lseek(descriptor, begin, os.SEEK_HOLE)
            found += place - begin
    except OSError as error:
        if error.errno != errno.ENXIO:  # ENXIO means that no data follows
            found = size
    os.lseek(descriptor, 0, os.SEEK_SET)
    return found


def _sizes(directory: Path, prefix: str = "") -> dict[str, int]:
    """Sizes of all files below a directory except the manifest, without following links.

    Raises:
        CheckpointCorrupt: The directory contains a link, a pipe or another special file.
    """
    sizes = {}
    for entry in sorted(os.scandir(directory / prefix), key=lambda entry: entry.name):
        name = f"{prefix}{entry.name}"
        status = entry.stat(follow_symlinks=False)
        if name == MANIFEST_FILE or entry.name in _IGNORED:
            continue
        if stat.S_ISDIR(status.st_mode):
            sizes.update(_sizes(directory, f"{name}/"))
        elif stat.S_ISREG(status.st_mode):
            sizes[name] = status.st_size
        else:
            raise CheckpointCorrupt(f"{directory}: {name} is a link or a device, not a regular file")
    return sizes


def _read_spec(file: BufferedReader) -> dict[str, Any]:
    spec = load_plain_yaml(file.read(4 * MAX_SPEC_BYTES).decode())
    if not isinstance(spec, dict):
        raise ValueError("not a mapping")
    return spec


def _read_arrays(file: BufferedReader) -> list[np.ndarray[Any, Any]]:
    size = os.fstat(file.fileno()).st_size
    with zipfile.ZipFile(file) as archive:
        members = archive.infolist()
        # A compressed member could expand to any size. An uncompressed one is never larger than the file.
        if any(member.compress_type != zipfile.ZIP_STORED for member in members):
            raise ValueError("compressed, which rlrun never writes")
        if {member.filename for member in members} != {f"{index}.npy" for index in range(len(members))}:
            raise ValueError("unexpected members")
        # In a crafted file, members may overlap, so that together they are larger than the file.
        if sum(max(member.file_size, member.compress_size) for member in members) > size:
            raise ValueError("its members claim to be larger than the file itself")
        arrays = []
        for index in range(len(members)):
            with archive.open(f"{index}.npy") as member:
                arrays.append(np.lib.format.read_array(member, allow_pickle=False))
        return arrays


def _read_tensors(file: BufferedReader) -> dict[str, np.ndarray[Any, Any]]:
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        named = load(file.read())
    except SafetensorError as error:
        raise ValueError(str(error)) from error
    return {name: array if array.flags.writeable else array.copy() for name, array in named.items()}
