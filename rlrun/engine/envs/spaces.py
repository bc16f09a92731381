"""Utilities for Gymnasium spaces: supported kinds, batch allocation, and validation of observations and actions."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
from gymnasium import Space
from gymnasium.spaces import Dict, Tuple
from numpy.typing import NDArray

from rlrun.engine.data.space_kinds import SpaceKind, kind_of, kinds_in_words, known_kind, space_tree
from rlrun.engine.data.tree import leaves, map_tree
from rlrun.engine.messages.errors import EnvironmentUnusable

Tree = Any


WITHOUT_KIND = {"MissionSpace": '; env.wrappers: ["minigrid.wrappers:ImgObsWrapper"] keeps only the image'}
"""Advice for observations that contain an unsupported kind of space, by the kind's name."""


class Spaces(NamedTuple):
    """Observation and action space that a policy is created for.

    Attributes:
        observation: Space of one observation.
        action: Space of one action.
    """

    observation: Space[Any]
    action: Space[Any]


def check_spaces(env_id: str, observation_space: Any, action_space: Any) -> None:
    """Validates that both spaces of an env are declared and of supported kinds.

    Raises:
        EnvironmentUnusable: A space is missing, empty, or of an unsupported kind.
    """
    for name, space in (("observation_space", observation_space), ("action_space", action_space)):
        for path, part in _parts(space, name):
            if kind_of(part) is not None:
                continue
            if not isinstance(part, Space):
                what = "is not set" if part is None else f"must be a space, got {type(part).__name__}"
                raise EnvironmentUnusable(
                    f"env {env_id}: its {path} {what}; an env must declare its spaces with gymnasium.spaces"
                )
            what = "contains no spaces" if isinstance(part, Dict | Tuple) else f"is a {type(part).__name__}"
            remedy = WITHOUT_KIND.get(type(part).__name__, "")
            raise EnvironmentUnusable(
                f"env {env_id}: its {path} {what}, but rlrun supports only {kinds_in_words()}{remedy}"
            )


def empty_batch(space: Space[Any], num_envs: int) -> Tree:
    """Returns a batch of zeros in a space's structure and dtypes: a tree of arrays [num_envs, ...]."""

    def zeros(part: Space[Any]) -> NDArray[Any]:
        shape, dtype = known_kind(part).form(part)
        return np.zeros((num_envs, *shape), dtype)

    return map_tree(zeros, space_tree(space))


class SpaceMismatch(ValueError):
    """Error for a value outside its space, or for an info that lacks a required number."""


def row_writer(space: Space[Any], batch: Tree, path: str = "") -> Callable[[int, Any], None]:
    """Returns a function that writes an env slot's observation into its row of a batch, in the space's dtypes.

    The function raises `SpaceMismatch` for missing or superfluous parts, and for values that NumPy would silently
    broadcast or truncate.

    Args:
        space: The space.
        batch: Batch of the space's observations, which the function fills.
        path: Path of the space's part in the observation, for messages.
    """
    if isinstance(space, Dict):
        writers = [(key, row_writer(part, batch[key], _join(path, key))) for key, part in space.items()]
        keys = batch.keys()

        def write_dict(slot: int, observation: Any) -> None:
            if not isinstance(observation, dict) or observation.keys() != keys:
                _raise_mismatch(space, observation, path)
            for key, write in writers:
                write(slot, observation[key])

        return write_dict
    if isinstance(space, Tuple):
        pairs = enumerate(zip(space, batch, strict=True))
        parts = [row_writer(part, rows, _join(path, number)) for number, (part, rows) in pairs]

        def write_tuple(slot: int, observation: Any) -> None:
            if not isinstance(observation, tuple | list) or len(observation) != len(parts):
                _raise_mismatch(space, observation, path)
            for write, part in zip(parts, observation, strict=True):
                write(slot, part)

        return write_tuple
    return _leaf_writer(space, batch, path)


def _raise_mismatch(space: Space[Any], observation: Any, path: str) -> None:
    """Raises `SpaceMismatch` if an observation is not in a space."""
    if reason := mismatch(space, observation, path):
        raise SpaceMismatch(reason)


def _leaf_writer(space: Space[Any], rows: NDArray[Any], path: str) -> Callable[[int, Any], None]:
    kind, shape = known_kind(space), rows.shape[1:]
    arrays, numbers = {rows.dtype}, {rows.dtype.type}  # types accepted without another check
    own: Any = rows.dtype  # tested first: it is nearly always the same dtype object, and hashing takes longer
    if kind.meaning != "numbers":  # an invalid choice would crash the network at the next action
        arrays, numbers, own = set(), set(), None

    def write(slot: int, observation: Any) -> None:
        if observation.__class__ is np.ndarray:
            dtype = observation.dtype
            is_known = observation.shape == shape and (dtype is own or dtype in arrays)
        else:
            is_known = observation.__class__ in numbers and not shape
        if is_known:
            rows[slot] = observation
            return
        array = _element(space, kind, observation, f" at '{path}'" if path else "")
        if np.issubdtype(rows.dtype, np.floating) or (
            kind.meaning == "numbers" and np.can_cast(array.dtype, rows.dtype)
        ):
            arrays.add(array.dtype)
            numbers.add(observation.__class__ if not shape else array.dtype.type)
        rows[slot] = array

    return write


def row_splitter(space: Space[Any]) -> Callable[[Tree], Iterator[Any]]:
    """Returns a function that splits a batch of actions and yields them one env at a time.

    The batch, arrays [B, ...], is copied, because an env may keep its action and the caller may overwrite the batch
    with the next actions.
    """
    if isinstance(space, Dict | Tuple):

        def rows_of_tree(actions: Tree) -> Iterator[Any]:
            copied = map_tree(np.copy, actions)
            length = len(leaves(copied)[0])
            return (map_tree(lambda leaf, i=i: leaf[i], copied) for i in range(length))

        return rows_of_tree
    return lambda actions: iter(np.array(actions))


def mismatch(space: Space[Any], observation: Any, path: str = "") -> str | None:
    """Returns the reason why an observation is outside a space; None if it is inside.

    A float is accepted for any float dtype, since it is cast; Gymnasium's own `Space.contains` is stricter and gives no
    reason.
    """
    at = f" at '{path}'" if path else ""
    if isinstance(space, Dict):
        return _dict_mismatch(space, observation, path, at)
    if isinstance(space, Tuple):
        if not isinstance(observation, tuple | list) or len(observation) != len(space.spaces):
            return f"the observation{at} must be a tuple of length {len(space.spaces)}, not {_shown(observation)}"
        found = (mismatch(part, value, _join(path, i)) for i, (part, value) in enumerate(zip(space, observation)))  # noqa: B905
        return next((reason for reason in found if reason), None)
    try:
        _element(space, known_kind(space), observation, at)
    except SpaceMismatch as reason:
        return str(reason)
    return None


def _element(space: Space[Any], kind: SpaceKind, observation: Any, at: str) -> NDArray[Any]:
    """Converts an observation of a leaf space (neither Dict nor Tuple) to an array.

    Raises:
        SpaceMismatch: The observation is outside the space.
    """
    if _is_plain(space, observation):
        plain: NDArray[Any] = observation
        return plain
    try:
        array = kind.array(space, observation)
    except ValueError as error:
        raise SpaceMismatch(f"the observation{at} is {error}, but its space is {space}") from None
    if array.dtype.kind not in "biuf":  # strings, None, ragged lists, complex numbers
        shape, _ = kind.form(space)
        raise SpaceMismatch(f"the observation{at} must be an array of shape {shape}, not {_shown(observation)}")
    if reason := _form_mismatch(space, kind, array, at) or _value_mismatch(space, array, at):
        raise SpaceMismatch(reason)
    return array


def _is_plain(space: Space[Any], observation: Any) -> bool:
    """Fast check whether an observation is in a Box of real numbers; False if uncertain."""
    return (
        observation.__class__ is np.ndarray
        and observation.dtype == space.dtype
        and observation.dtype.kind == "f"
        and observation.shape == space.shape
        and math.isfinite(observation.sum())
    )


def _form_mismatch(space: Space[Any], kind: SpaceKind, array: NDArray[Any], at: str) -> str | None:
    """Reason why an observation's shape or dtype differs from a leaf space, None if they match."""
    shape, dtype = kind.form(space)
    if array.shape != shape:
        return f"the observation{at} has shape {array.shape}, but its space has {shape}"
    if np.issubdtype(array.dtype, np.integer) or array.dtype == bool:
        return None
    if kind.meaning != "numbers":
        return f"the observation{at} has dtype {array.dtype}, but {space} needs whole numbers"
    if np.issubdtype(dtype, np.integer):
        return f"the observation{at} has dtype {array.dtype}, but its space has {dtype}"
    return None


def _dict_mismatch(space: Dict, observation: Any, path: str, at: str) -> str | None:
    if not isinstance(observation, Mapping):
        return f"the observation{at} must be a dict with keys {sorted(space.spaces)}, not {_shown(observation)}"
    if missing := sorted(set(space.spaces) - set(observation)):
        return f"the observation{at} lacks the key {missing} of its space"
    if unknown := sorted(set(observation) - set(space.spaces)):
        return f"the observation{at} has the key {unknown}, which its space lacks"
    found = (mismatch(part, observation[key], _join(path, key)) for key, part in space.items())
    return next((reason for reason in found if reason), None)


def _value_mismatch(space: Space[Any], values: NDArray[Any], at: str) -> str | None:
    """Reason why values [..., *shape] of the right dtype are invalid for learning, such as NaN; None if valid.

    Bounds of real numbers are not checked: nothing is computed from them, and many envs exceed their bounds by a
    rounding error or in a rare state.
    """
    kind = known_kind(space)
    _, dtype = kind.form(space)
    if np.issubdtype(dtype, np.floating):
        if np.isfinite(values.sum()) or np.isfinite(values).all():
            return None
        return f"the observation{at} contains {'NaN' if np.isnan(values).any() else 'infinite numbers'}"
    low, high = kind.bounds(space)
    if kind.meaning == "numbers":
        of_type = np.iinfo(dtype)
        if values.dtype == dtype and (low.min(), high.max()) == (of_type.min, of_type.max):
            return None
    outside = (values < low) | (values > high)
    if not outside.any():
        return None
    return f"the observation{at} contains {values[outside].ravel()[0]}, which is outside {space}"


def first_bad_row(space: Space[Any], rows: Tree, path: str = "") -> tuple[tuple[int, int], str] | None:
    """Finds the first invalid observation, such as NaN, in a fragment with the space's shapes and dtypes.

    Args:
        space: The space.
        rows: Observations of T steps in B env slots, arrays [T, B, ...].
        path: Path of the space's part in the observation, for messages.

    Returns:
        Index (t, slot) of the first invalid observation, and the reason; None if all are valid.
    """
    if rows.__class__ is np.ndarray and rows.dtype.kind == "f" and math.isfinite(np.add.reduce(rows, axis=None)):
        return None  # most fragments pass this test, which takes a tenth of the time
    if isinstance(space, Dict | Tuple):
        keys = space.spaces.keys() if isinstance(space, Dict) else range(len(space.spaces))
        found = (first_bad_row(space[key], rows[key], _join(path, key)) for key in keys)
        return min((bad for bad in found if bad), default=None)
    at = f" at '{path}'" if path else ""
    if not _value_mismatch(space, rows, at):
        return None
    for t, slot in np.ndindex(*rows.shape[:2]):
        if reason := _value_mismatch(space, rows[t, slot], at):
            return (t, slot), reason
    return None


def action_mismatch(space: Space[Any], actions: Tree, num_envs: int) -> str | None:
    """Returns the reason why a batch of actions [num_envs, ...] is invalid for an env; None if it is valid.

    Bounds of Box spaces are not checked, since envs handle actions outside the bounds themselves.
    """
    if isinstance(space, Dict):
        found = (action_mismatch(part, actions[key], num_envs) for key, part in space.items())
        return next((reason for reason in found if reason), None)
    if isinstance(space, Tuple):
        found = (action_mismatch(part, value, num_envs) for part, value in zip(space, actions, strict=True))
        return next((reason for reason in found if reason), None)
    array, kind = np.asarray(actions), known_kind(space)
    shape = (num_envs, *(space.shape or ()))
    if array.shape != shape:
        return f"actions have shape {array.shape}, but {num_envs} env slots with {space} need {shape}"
    if kind.meaning == "numbers":
        return None
    if not np.issubdtype(array.dtype, np.integer):
        return f"actions have dtype {array.dtype}, but {space} needs whole numbers"
    low, high = kind.bounds(space)
    if np.all((array >= low) & (array <= high)):
        return None
    return f"actions {np.unique(array).tolist()} are outside {space}"


def _parts(space: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Yields the paths and leaf spaces of a (nested) space; an empty Dict or Tuple counts as a leaf."""
    inner = space.items() if isinstance(space, Dict) else enumerate(space) if isinstance(space, Tuple) else ()
    parts = [part for key, value in inner for part in _parts(value, f"{path}['{key}']")]
    yield from parts or [(path, space)]


def _join(path: str, key: object) -> str:
    return f"{path}/{key}" if path else str(key)


def _shown(value: Any) -> str:
    text = repr(value)
    return f"{type(value).__name__} {text if len(text) <= 60 else text[:57] + '...'}"
