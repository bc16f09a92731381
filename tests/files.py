"""Files of a folder, and a disk that is full."""

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def files(directory: Path) -> dict[str, bytes]:
    """Returns the content of all files below a folder, by their path there, without hidden files and folders."""
    found = {str(path.relative_to(directory)): path for path in directory.rglob("*") if path.is_file()}
    return {name: path.read_bytes() for name, path in found.items() if not is_hidden(name)}


def is_hidden(name: str) -> bool:
    """Whether a file, or a folder in its relative path, begins with a dot."""
    return any(part.startswith(".") for part in Path(name).parts)


@contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    """Limits the size of files in bytes, which the kernel answers as it answers a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
