"""Interface of all vector env backends: B env slots with NEXT_STEP autoreset, episode seeds, and restore by replay.

A vector env steps a batch of B single environments; each of them is an env slot. Autoreset is Gymnasium's NEXT_STEP: an
episode's final observation is returned by its last step. In the next step the env slot is reset: the action is ignored,
the reward is 0, both flags are False, and the observation is the first one of the next episode. The stream of
observations is thus complete, and the reset step is masked in learning.

Each episode has a separate seed, a function of (run seed, worker, stream, env slot, episode). A position within an
episode is therefore determined by the seed and the actions taken so far. `VectorEnv.restore` returns to a position by
replaying the actions, because copies by pickle or deepcopy are silently wrong for several simulators.
"""

from __future__ import annotations

import hashlib
import math
import traceback
import warnings
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Protocol

import gymnasium
import numpy as np
from numpy.typing import NDArray

from rlrun.engine.data.tree import map_tree, named_leaves
from rlrun.engine.envs.env_watch import Watched
from rlrun.engine.envs.episode_position import EpisodePosition
from rlrun.engine.envs.spaces import first_bad_row
from rlrun.engine.envs.step_marks import join_truncated
from rlrun.engine.messages.errors import EnvironmentUnusable, TrainingFailed, UsageError

Tree = Any
"""An array or a dict or tuple of trees, as in `rlrun.engine.data.tree`."""

Infos = dict[int, dict[str, Any]]
"""Infos of episodes that ended in a step, by env slot; slots with an empty info are omitted."""


NO_COLUMNS: Mapping[str, NDArray[np.float64]] = MappingProxyType({})
"""Empty mapping of columns, for envs without recorded info entries."""


class EnvError(TrainingFailed):
    """Error for an env that raised or returned an invalid value; the message names the episode."""


class EnvStartFailed(EnvError):
    """Error for an env that raised in its constructor or in the reset of its first episode."""


class BadReturn(EnvError):
    """Error for an invalid value that an env returned from `reset` or `step`."""


class VectorEnv(Protocol):
    """Interface of a vector env with B env slots; the module's docstring explains autoreset.

    Attributes:
        num_envs: Number of env slots, B.
        observation_space: Space of one env slot's observation.
        action_space: Space of one env slot's action.
        name: Name of the backend, such as "loop" or "cartpole".
        seeds_episodes: Whether individual env slots can be reset, with their own seeds. Otherwise `restore` starts new
            episodes, and `begin` is not supported.
        columns: Numbers from the infos of the latest step by name, each [B]; overwritten by the next step, and
            undefined in env slots that were just reset. Empty unless the env's config names info entries.
    """

    num_envs: int
    observation_space: gymnasium.Space[Any]
    action_space: gymnasium.Space[Any]
    name: str
    seeds_episodes: bool
    columns: Mapping[str, NDArray[np.float64]]

    def reset(self) -> Tree:
        """Starts the first episode of every env slot with its own seed.

        Returns:
            Observations, arrays [B, ...]. As with `step`, the env owns these arrays, and may overwrite them in the next
            call.
        """
        ...

    def step(self, actions: Tree) -> tuple[Tree, NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_], Infos]:
        """Steps all env slots; a slot whose episode ended is reset instead (NEXT_STEP autoreset).

        Args:
            actions: Arrays [B, ...] in the env's action space; Discrete actions may start at a number other than 0.

        Returns:
            Observations [B, ...], raw rewards [B], terminateds [B], truncateds [B], and infos by env slot.

        Raises:
            EnvError: One of the environments raised, or returned a value outside its spaces.
        """
        ...

    def begin(self, slots: Sequence[int], seeds: Sequence[int]) -> Tree:
        """Starts new episodes with given seeds in some env slots; requires an earlier `reset`.

        These slots may be in the middle of an episode. The new episode counts as the slot's next one. Other env slots
        are unchanged.

        Args:
            slots: Env slots, at least one, without duplicates.
            seeds: Seed of each slot's new episode, below 2**31.

        Returns:
            Observations of all env slots, arrays [B, ...].

        Raises:
            UsageError: The backend cannot seed individual env slots.
            EnvError: One of the environments raised, or returned a value outside its spaces.
        """
        ...

    def places(self) -> list[EpisodePosition]:
        """Returns the current position of each env slot: episode number, seed and episode length so far."""
        ...

    def restore(
        self, places: Sequence[EpisodePosition], actions: Sequence[Tree], hashes: Sequence[str], max_replay_s: float
    ) -> tuple[Tree, list[bool]]:
        """Restores each env slot to a saved step of an episode by a seeded reset and a replay of its actions.

        Args:
            places: Saved position (episode, seed, step) of each env slot.
            actions: Actions of each env slot since its reset, arrays [length, ...].
            hashes: Expected `observation_hash` of each env slot's observation at its position.
            max_replay_s: Time limit of the replay in seconds.

        Returns:
            Observations [B, ...], and per env slot whether the restore was exact. A slot that was not restored exactly
            (different observation, or no time left) starts its next episode.

        Raises:
            EnvError: One of the environments raised, or returned a value outside its spaces.
        """
        ...

    def close(self) -> None:
        """Closes the environments and frees their resources."""
        ...


def observation_hash(observation: Tree) -> str:
    """Returns a digest (32 hexadecimal digits) of one env slot's observation: its names, dtypes, shapes and values."""
    digest = hashlib.blake2b(digest_size=16)
    for name, leaf in sorted(named_leaves(observation), key=lambda item: item[0]):
        array = np.asarray(leaf)
        digest.update(f"{name}:{array.dtype.str}:{array.shape};".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


def first_not_finite(numbers: NDArray[np.float64]) -> tuple[int, ...] | None:
    """Returns the index of the first NaN or infinite entry of an array, None if all are finite.

    A finite sum proves that all entries are finite; otherwise the entries are searched.
    """
    if math.isfinite(np.add.reduce(numbers, None)):
        return None
    found = np.argwhere(~np.isfinite(numbers))
    return tuple(found[0].tolist()) if len(found) else None


def begin_unsupported(env_id: str, reason: str) -> UsageError:
    """Creates the error for a vector env that does not support `VectorEnv.begin`."""
    return UsageError(f"env {env_id}: cannot start a chosen episode in a single env slot: {reason}")


_CALLERS_OF_WORLDS = (
    "rlrun.engine.worlds.make",
    "rlrun.engine.worlds.pettingzoo_worlds",
    "rlrun.engine.worlds.running_world",
)
"""Modules of `rlrun.engine.worlds` that call users' env code; the package's other modules define worlds themselves."""


def env_error(env_id: str, doing: str, where: str, error: BaseException, *, starts: bool = False) -> EnvError:
    """Creates the error for an exception in an env's code, with location and traceback in the message.

    Args:
        env_id: The env's id or factory.
        doing: Call that raised, such as "step()".
        where: Description of worker, env slot and episode.
        error: Exception that the env raised.
        starts: Whether the env raised before its first step; the error is then an `EnvStartFailed`.
    """
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None and _is_ours(trace.tb_frame.f_globals.get("__name__", "")):
        trace = trace.tb_next
    told = "".join(traceback.format_exception(type(error), error, trace)).rstrip()
    kind = EnvStartFailed if starts else EnvError
    return kind(f"env {env_id} raised an exception in {doing} ({where}){_old_interface(error)}:\n{told}")


def describe_positions(each: str, places: Sequence[EpisodePosition]) -> str:
    """Returns text for messages that lists the first few env slots with their positions (episode, seed, step).

    Args:
        each: Word for a slot in the message: `env` or `world`.
        places: Positions of the env slots.
    """
    return join_truncated([f"{each} {slot}, {place}" for slot, place in enumerate(places)])


def refuse_bad_observations(env: VectorEnv, observations: Tree, name: str) -> None:
    """Validates observations: no NaN, no infinite numbers, no integers outside the space.

    Args:
        env: Vector env after the step that returned the observations.
        observations: Observations, arrays [B, ...].
        name: Name of the envs in messages.

    Raises:
        EnvError: An observation is invalid.
    """
    if bad := first_bad_row(env.observation_space, map_tree(lambda leaf: leaf[None], observations)):
        (_, slot), reason = bad
        raise EnvError(f"{name}, env {slot}, {env.places()[slot]}: {reason}")


def close_or_warn(close: Callable[[], object], env_id: str, where: str) -> None:
    """Closes an env; an exception during the close becomes a warning, since no results are lost.

    Args:
        close: The env's method `close`.
        env_id: The env's id or factory.
        where: Description of worker, env slot and episode, or of the env's purpose.
    """
    try:
        with Watched(f"env {env_id}: closing it ({where})"):
            close()
    except (Exception, SystemExit) as error:
        warnings.warn(str(env_error(env_id, "close()", where, error)), stacklevel=3)


def _is_ours(module: str) -> bool:
    return module.startswith("rlrun.engine.envs.") or module in _CALLERS_OF_WORLDS


def _old_interface(error: BaseException) -> str:
    """Returns a hint for the most common error, an env with the API of Gym before 0.26; "" for other errors.

    Such errors are recognized by Python's message about a tuple that is too short or an unknown keyword argument.
    """
    text = str(error)
    if "to unpack (expected 5" in text:
        return "; step() must return five values: observation, reward, terminated, truncated, info"
    if "to unpack (expected 2" in text:
        return "; reset() must return two values: observation, info"
    if "unexpected keyword argument 'seed'" in text or "unexpected keyword argument 'options'" in text:
        return "; reset() must accept the keyword arguments seed and options"
    return ""


def require_separate(env_id: str, made: Sequence[Any]) -> None:
    """Validates that the envs or worlds that a factory creates are separate objects.

    Raises:
        EnvironmentUnusable: A factory returned the same object twice.
    """
    if len({id(env) for env in made}) < len(made):
        raise EnvironmentUnusable(
            f"env {env_id}: its factory returned the same object twice; it must create a new env on each call"
        )
