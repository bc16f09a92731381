"""Demonstrations (recorded episodes of a policy or a person) and their file format (NumPy, no pickle).

The file is a ``.npz`` with one row for each step of each episode, in order. After the last step of each episode, one
more row holds the episode's final observation:

- ``obs`` [N, ...], or ``obs/<part>`` for each part of a nested observation,
- ``actions`` [N, ...] as passed to the env,
- ``rewards`` [N], ``terminateds`` [N], ``truncateds`` [N],
- ``valid`` [N]: whether the row holds a step,
- ``about``: a text in JSON with `format` (1), `first_action` if actions are numbers that do not start at 0, and further
  information from the recorder, such as the env.
"""

from __future__ import annotations

import json
import os
import sys
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.data.tree import map_tree, named_leaves
from rlrun.engine.messages.errors import UsageError

FORMAT = 1
_COLUMNS = ("actions", "rewards", "terminateds", "truncateds", "valid")


@dataclass(frozen=True)
class Demonstrations:
    """Expert demonstrations: recorded episodes of a policy or a person, concatenated.

    Attributes:
        columns: `actions`, `rewards`, `terminateds`, `truncateds` and `valid`, [N, ...].
        observations: Parts of the observations [N, ...] by path; the path is "" if observations are not nested.
        about: Notes from the program that recorded the episodes, such as the env.
    """

    columns: Mapping[str, NDArray[Any]]
    observations: Mapping[str, NDArray[Any]]
    about: Mapping[str, Any]

    @property
    def num_steps(self) -> int:
        """Total number of steps over all episodes."""
        return int(np.count_nonzero(self.columns["valid"]))

    def save(self, path: Path) -> None:
        """Writes the demonstrations to a file, atomically."""
        parts = {f"obs/{part}" if part else "obs": leaf for part, leaf in self.observations.items()}
        about = np.array(json.dumps({"format": FORMAT, **self.about}))
        partial = path.with_name(f".{path.name}.partial-{os.getpid()}")
        try:
            with zipfile.ZipFile(partial, "w", zipfile.ZIP_DEFLATED) as archive:
                for name, leaf in {"about": about, **parts, **self.columns}.items():
                    with archive.open(zipfile.ZipInfo(f"{name}.npy"), "w") as member:  # without a timestamp
                        np.lib.format.write_array(member, leaf, allow_pickle=False)
            os.replace(partial, path)
        finally:
            partial.unlink(missing_ok=True)

    def fragment(self, like: SampleBatch) -> SampleBatch:
        """Returns all episodes as one batch of T steps, [T, 1], as if a rollout worker had collected them.

        Args:
            like: Batch of a rollout worker with the expected structure and dtypes of observations and actions.

        Raises:
            UsageError: Observations have a different structure or shape.
        """
        paths = {id(leaf): name for name, leaf in named_leaves(like["obs"])}

        def part_like(leaf: NDArray[Any]) -> NDArray[Any]:
            found = self.observations.get(paths[id(leaf)])
            if found is None or found.shape[1:] != leaf.shape[2:]:
                shape = "none" if found is None else f"{found.shape[1:]}"
                raise UsageError(
                    f"the demonstrations' observations do not match the env: '{paths[id(leaf)]}' has shape "
                    f"{leaf.shape[2:]} in the env, but {shape} in the demonstrations"
                )
            return np.concatenate([found, found[-1:]]).astype(leaf.dtype)[:, None]

        columns = {name: column[:, None] for name, column in self.columns.items()}
        columns["rewards"] = columns["rewards"].astype(np.float32)
        columns["actions"] = columns["actions"] - self.about.get("first_action", 0)
        starts = np.ones_like(columns["valid"])
        starts[1:] = ~columns["valid"][:-1]
        return SampleBatch(columns, obs=map_tree(part_like, like["obs"]), episode_starts=starts)


def load_demonstrations(path: str) -> Demonstrations:
    """Loads demonstrations from a file.

    Args:
        path: The file. A relative path is searched for in the current directory, in the directory of the loaded spec,
            and in the other directories of `sys.path`.

    Raises:
        UsageError: The file does not exist, or does not hold demonstrations.
    """
    places = [Path(), *map(Path, sys.path)]
    found = next((place / path for place in places if (place / path).is_file()), None)
    if found is None:
        raise UsageError(
            f"there is no file {path} with demonstrations in the current directory or next to the spec; record "
            "demonstrations with `rlrun demonstrate`"
        )
    try:
        with np.load(found, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
        about = json.loads(str(arrays.pop("about")))
        columns = {name: arrays.pop(name) for name in _COLUMNS}
        rows = {len(column) for column in (*columns.values(), *arrays.values())}
        if about["format"] != FORMAT or len(rows) != 1 or columns["valid"][-1] or not columns["valid"].any():
            raise ValueError(f"its format is {about['format']}, and its columns have {sorted(rows)} rows")
        for name, numbers in {**columns, **arrays}.items():
            if numbers.dtype.kind == "f" and not np.isfinite(numbers).all():
                row = int(np.argwhere(~np.isfinite(numbers))[0][0])
                raise ValueError(f"row {row} of '{name}' contains NaN or infinite numbers")
    except (OSError, KeyError, TypeError, ValueError, IndexError, zipfile.BadZipFile) as error:
        reason = f"{error} is missing" if isinstance(error, KeyError) else str(error)
        raise UsageError(f"{found} is not a valid demonstration file: {reason}") from error
    observations = {name.removeprefix("obs").removeprefix("/"): leaf for name, leaf in arrays.items()}
    return Demonstrations(columns, observations, about)
