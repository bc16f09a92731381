"""Episodes from tables with one row per step, as logged by simulators or stored by other libraries.

Tables differ in how they store an episode's end. With a column `valid`, final observations have separate rows.
Otherwise the final observation is taken from the columns of next observations. Without such columns, an episode that
terminated needs no final observation. In any other episode, the last observation becomes the final one, and the step
taken from it is dropped, since its next observation is unknown.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium import Space
from gymnasium.spaces import Box, Dict, Discrete, MultiDiscrete
from numpy.typing import NDArray

from rlrun.engine.datasets.episodes import EpisodeRows, EpisodeSource
from rlrun.engine.datasets.layout import (
    LOGP,
    LOGP_FORM,
    STEP_COLUMNS,
    ColumnForm,
    Columns,
    SetSpaces,
    as_tree,
    named_forms,
)
from rlrun.engine.messages.errors import UsageError, did_you_mean

_NUMBERED = re.compile(r"(.+)\[(\d+)\]")
"""Regular expression for a column with one number of an entry, such as obs[2]."""


@dataclass(frozen=True)
class TableNames:
    """Names of a table's columns, by their role.

    Attributes:
        obs: Columns of the observation's numbers; if empty, all columns named like `obs`, `obs[0]` or `obs/camera`.
        actions: Columns of the action's numbers; if empty, all columns named like `actions` or `actions[0]`.
        next_obs: Columns of the next observation's numbers, in the order of `obs`; empty if the table has none.
        rewards: Column of the rewards.
        terminateds: Column of the termination flags.
        truncateds: Column of the truncation flags.
        episode: Column whose value changes at the start of each episode.
    """

    obs: tuple[str, ...] = ()
    actions: tuple[str, ...] = ()
    next_obs: tuple[str, ...] = ()
    rewards: str = "rewards"
    terminateds: str = "terminateds"
    truncateds: str = "truncateds"
    episode: str = "episode"


def table_source(
    table: Columns,
    names: TableNames,
    *,
    spaces: SetSpaces | None = None,
    agents: Sequence[str] = (),
    about: Mapping[str, Any] | None = None,
) -> tuple[EpisodeSource, list[str]]:
    """Reads a table as episodes that can be written to a data set.

    Args:
        table: The table's columns, [N, ...].
        names: Names of the table's columns, by their role.
        spaces: Spaces of observations and actions; None to infer them from the numbers.
        agents: Names of the agents, if the column `agent` holds indices into this list.
        about: Notes for the manifest of the data set.

    Returns:
        The episodes, and messages about inferred spaces, omitted columns and missing final observations.

    Raises:
        UsageError: A column is missing, or does not fit its space.
    """
    if not table or not len(next(iter(table.values()))):
        raise UsageError("the table has no rows")
    table = _joined(table)
    notes: list[str] = []
    obs = _leaves(table, "obs", names.obs, None if spaces is None else spaces.observation)
    actions = _leaves(table, "actions", names.actions, None if spaces is None else spaces.action)
    if spaces is None:
        spaces = SetSpaces(_inferred(obs, "obs", _observation_space), _inferred(actions, "actions", _action_space))
        notes.append(f"inferred spaces: observations {spaces.observation}, actions {spaces.action}")
    rows: Columns = {**obs, **actions, "rewards": _column(table, names.rewards).astype(np.float64)}
    for name, own in (("terminateds", names.terminateds), ("truncateds", names.truncateds)):
        rows[name] = table[own].astype(np.bool_) if own in table else np.zeros(len(rows["rewards"]), np.bool_)
    used = {*names.obs, *names.actions, *names.next_obs, *obs, *actions, names.rewards, names.terminateds}
    further, left_out = _further({name: column for name, column in table.items() if name not in used}, names)
    if left_out:
        notes.append(f"left out columns that contain no numbers or have a reserved name: {', '.join(left_out)}")
    rows |= {name: table[name].astype(form.dtype) for name, form in further.items()}
    rows |= {name: table[name].astype(np.int64) for name in ("seed", "weights_version") if name in table}
    finals = _leaves(table, "obs", names.next_obs, spaces.observation) if names.next_obs else None
    if finals is None and "valid" not in table:
        notes.append(
            "the table has no final observations: for an episode that did not terminate, the last step is "
            "dropped and its observation becomes the final one"
        )
    bounds = _bounds(table, rows, names)
    agent_of = _agents(table, agents, bounds)
    episodes = _episodes(rows, finals, bounds, spaces, agent_of, has_finals="valid" in table)
    return EpisodeSource(spaces, episodes, further, about or {}), notes


def _episodes(
    rows: Columns,
    finals: Columns | None,
    bounds: Sequence[tuple[int, int]],
    spaces: SetSpaces,
    agent_of: Mapping[int, str],
    *,
    has_finals: bool,
) -> Iterator[EpisodeRows]:
    """Yields the episodes, each with the rows from `start` up to `end` of a pair in `bounds`."""
    observed, acted = named_forms("obs", spaces.observation), named_forms("actions", spaces.action)
    for start, end in bounds:
        last = slice(end - 1, end)
        if has_finals or not (rows["terminateds"][end - 1] or finals is not None):
            end -= 1  # the last row holds the final observation
            final = {name: rows[name][last] for name in observed}
        else:
            final = {name: (rows if finals is None else finals)[name][last] for name in observed}
        if end == start:
            continue
        obs = {name: np.concatenate([rows[name][start:end], final[name]]) for name in observed}
        steps = {name: column[start:end] for name, column in rows.items() if name not in observed}
        own: dict[str, Any] = {name: column for name, column in steps.items() if name not in acted}
        own |= {"obs": as_tree("obs", spaces.observation, obs), "actions": as_tree("actions", spaces.action, steps)}
        yield EpisodeRows(own, agent_of.get(start, ""))


def _bounds(table: Columns, rows: Columns, names: TableNames) -> list[tuple[int, int]]:
    """Returns the bounds (start, end) of the episodes' rows, including final observations."""
    number = len(rows["rewards"])
    if "valid" in table:
        last = ~table["valid"].astype(np.bool_)
    elif names.episode in table:
        own = table[names.episode]
        last = np.append(own[1:] != own[:-1], True)
    else:
        last = rows["terminateds"] | rows["truncateds"]
    ends = np.union1d(np.flatnonzero(last) + 1, [number]).astype(np.int64)
    starts = np.append(0, ends[:-1])
    return list(zip(starts.tolist(), ends.tolist(), strict=True))


def _agents(table: Columns, agents: Sequence[str], bounds: Sequence[tuple[int, int]]) -> dict[int, str]:
    """Returns the agents' names by the first row of their episodes."""
    if "agent" not in table:
        return {}
    own = table["agent"]
    return {start: agents[int(own[start])] if agents else str(own[start]) for start, _ in bounds}


def _joined(table: Columns) -> Columns:
    """Joins columns such as obs[0] and obs[1] into one column [N, 2]."""
    parts: dict[str, dict[int, NDArray[Any]]] = {}
    joined: Columns = {}
    for name, column in table.items():
        if numbered := _NUMBERED.fullmatch(name):
            parts.setdefault(numbered[1], {})[int(numbered[2])] = column
        else:
            joined[name] = column
    for name, own in parts.items():
        joined[name] = np.stack([own[number] for number in sorted(own)], axis=1)
    return joined


def _leaves(table: Columns, root: str, names: Sequence[str], space: Space[Any] | None) -> Columns:
    """Returns the columns of the parts of observations or actions, in the shapes of the space if it is known."""
    if names:
        own = [_column(table, name) for name in names]
        found = {root: own[0] if len(own) == 1 else np.stack(own, axis=1)}
    else:
        found = {name: column for name, column in table.items() if name.partition("/")[0] == root}
        if not found:
            raise UsageError(
                f"the table has no column '{root}' or '{root}[0]'; name the columns to use, out of {', '.join(table)}"
            )
    if space is None:
        return found
    forms = named_forms(root, space)
    if found.keys() != forms.keys():
        raise UsageError(f"the table has {', '.join(found)}, but the space {space} needs {', '.join(forms)}")
    return {name: _shaped(name, found[name], form) for name, form in forms.items()}


def _shaped(name: str, column: NDArray[Any], form: ColumnForm) -> NDArray[Any]:
    try:
        shaped = column.reshape(len(column), *form.shape)
        cast = shaped.astype(form.dtype)
    except (TypeError, ValueError) as error:
        raise UsageError(f"the column '{name}' cannot be converted to {form.dtype} {form.shape}: {error}") from error
    if form.dtype.kind != "f" and not np.array_equal(cast, shaped):
        raise UsageError(
            f"the column '{name}' cannot be converted to {form.dtype}: it has fractions or is out of range"
        )
    return cast


def _column(table: Columns, name: str) -> NDArray[Any]:
    if name not in table:
        raise UsageError(f"the table has no column '{name}', only {', '.join(table)}{did_you_mean(name, table)}")
    return table[name]


def _further(table: Columns, names: TableNames) -> tuple[dict[str, ColumnForm], list[str]]:
    """Returns the forms of the other columns with single numbers, and the names of the remaining columns."""
    own = {*STEP_COLUMNS, names.truncateds, names.episode}
    forms, left_out = {}, []
    for name, column in table.items():
        if name in own:
            continue
        is_taken = name.partition("/")[0] in ("obs", "actions")
        if name == LOGP:
            forms[name] = LOGP_FORM
        elif not is_taken and column.dtype.kind in "biuf" and column.ndim == 1:
            forms[name] = ColumnForm(column.dtype)
        else:
            left_out.append(name)
    return forms, left_out


def _inferred(leaves: Columns, root: str, space_of: Any) -> Space[Any]:
    """Infers a space from columns; it is a Dict of parts for columns such as obs/camera."""
    if root in leaves:
        leaves[root], space = space_of(leaves[root])
        return space
    tree: dict[str, Any] = {}
    for name in list(leaves):
        *folders, last = name.split("/")[1:]
        leaves[name], space = space_of(leaves[name])
        branch = tree
        for folder in folders:
            branch = branch.setdefault(folder, {})
        branch[last] = space
    return _as_dict(tree)


def _as_dict(tree: Any) -> Space[Any]:
    return Dict({key: _as_dict(part) for key, part in tree.items()}) if isinstance(tree, dict) else tree


def _observation_space(column: NDArray[Any]) -> tuple[NDArray[Any], Space[Any]]:
    """Infers the space of observations; also returns their column in its dtype."""
    shape = column.shape[1:]
    if column.dtype == np.uint8 and len(shape) > 1:
        return column, Box(0, 255, shape, np.uint8)
    if column.dtype.kind in "biu" and not shape:
        return _as_choices(column)
    rows = column.reshape(len(column), *(shape or (1,))).astype(np.float32)
    return rows, Box(-np.inf, np.inf, rows.shape[1:])


def _action_space(column: NDArray[Any]) -> tuple[NDArray[Any], Space[Any]]:
    """Infers the space of actions; also returns their column in its dtype."""
    if column.dtype.kind in "biu":
        if column.ndim == 1:
            return _as_choices(column)
        rows = column.astype(np.int64)
        start = np.minimum(rows.min(axis=0), 0)
        return rows, MultiDiscrete(rows.max(axis=0) - start + 1, start=start)
    rows = column.reshape(len(column), *(column.shape[1:] or (1,))).astype(np.float32)
    return rows, Box(rows.min(axis=0), rows.max(axis=0), rows.shape[1:])


def _as_choices(column: NDArray[Any]) -> tuple[NDArray[Any], Space[Any]]:
    rows = column.astype(np.int64)
    start = min(int(rows.min()), 0)
    return rows, Discrete(int(rows.max()) - start + 1, start=start)
