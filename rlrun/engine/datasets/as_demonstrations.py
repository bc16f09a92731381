"""Conversion of data sets to demonstrations, for algorithms that learn from files of `rlrun demonstrate`."""

from __future__ import annotations

import gymnasium
import numpy as np

from rlrun.engine.data.demonstrations import Demonstrations, load_demonstrations
from rlrun.engine.data.tree import named_leaves
from rlrun.engine.datasets.data_set import DataSet
from rlrun.engine.datasets.input_sets import data_at
from rlrun.engine.messages.errors import UsageError


def demonstrations_at(path: str) -> Demonstrations:
    """Loads demonstrations from the folder of a data set, or from a demonstration file.

    Args:
        path: Path or URI of the folder, or path of the file. A relative path is searched for like a module; see
            `load_demonstrations`.

    Raises:
        UsageError: There are no demonstrations, or they hold nested actions.
        DataSetError: A file of the data set cannot be read.
    """
    found = data_at(path)
    return load_demonstrations(path) if found is None else demonstrations_of(found)


def demonstrations_of(found: DataSet) -> Demonstrations:
    """Converts all episodes of a data set to demonstrations, without seeds, agents, versions and additional columns.

    Raises:
        UsageError: The set holds no steps, or nested actions.
        DataSetError: A file of the data set cannot be read.
    """
    if not found.num_steps:
        raise UsageError(f"{found.folder} holds no steps to learn from")
    rows = found.rows(np.arange(found.num_rows))
    if isinstance(rows["actions"], dict | tuple):
        raise UsageError(f"{found.folder} holds nested actions, and demonstrations hold single numbers or vectors")
    names = ("actions", "rewards", "terminateds", "truncateds", "valid")
    start = int(found.action_space.start) if isinstance(found.action_space, gymnasium.spaces.Discrete) else 0
    about = {**found.manifest.about, **({"first_action": start} if start else {})}
    return Demonstrations({name: rows[name] for name in names}, dict(named_leaves(rows["obs"])), about)
