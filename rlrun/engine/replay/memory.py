"""Allocation of arrays for replay buffers, in RAM or in memory-mapped files."""

from __future__ import annotations

import errno
import math
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from rlrun.engine.checkpoint.durable import explained_full_disk
from rlrun.engine.replay.stores import Allocate


def zeros_in(directory: str | None) -> Allocate:
    """Returns a function that allocates zero-filled arrays, in memory-mapped files in `directory` or, if None, in RAM.

    The files are unlinked right after creation, so that the OS frees each file together with its array, even after a
    crash.
    """
    if directory is None:
        return np.zeros

    def in_file(shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
        num_bytes = math.prod(shape) * np.dtype(dtype).itemsize
        path = Path(directory)
        with explained_full_disk(path, lambda: num_bytes):
            path.mkdir(parents=True, exist_ok=True)
            if shutil.disk_usage(path).free < num_bytes:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            with tempfile.TemporaryFile(dir=path) as file:
                if sys.platform != "darwin":  # macOS has no such call; there, a full disk kills the process
                    os.posix_fallocate(file.fileno(), 0, num_bytes)
                else:
                    file.truncate(num_bytes)
                return np.asarray(np.memmap(file, dtype, "r+", shape=shape))

    return in_file
