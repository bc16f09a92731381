"""Files of a folder, and a full disk."""

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def files(directory: Path) -> dict[str, bytes]:
    """Returns the contents of all files below a folder by relative path, without hidden files and folders."""
    found = {str(path.relative_to(directory)): path for path in directory.rglob("*") if path.is_file()}
    return {name: path.read_bytes() for name, path in found.items() if not is_hidden(name)}


def is_hidden(name: str) -> bool:
    """Whether the name of a file, or of a folder in its relative path, begins with a dot."""
    return any(part.startswith(".") for part in Path(name).parts)


@contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    """Limits the size of files in bytes, which has the same effect as a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
