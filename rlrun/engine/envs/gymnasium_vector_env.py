"""Adapter for third-party Gymnasium vector envs, which accept only one seed for all env slots."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, NoReturn

import gymnasium
import numpy as np
from gymnasium.spaces import Dict, Tuple
from numpy.typing import NDArray
from typing_extensions import override

from rlrun.engine.data.action_masks import check_action_mask
from rlrun.engine.data.space_kinds import known_kind
from rlrun.engine.envs.action_masks import with_vector_action_masks
from rlrun.engine.envs.backend import EnvBackend, backend
from rlrun.engine.envs.env_config import EnvConfig
from rlrun.engine.envs.env_ids import check_installed, factory_of, find_spec, is_factory
from rlrun.engine.envs.env_watch import Watched, watched_env_call
from rlrun.engine.envs.episode_ledger import EpisodeLedger
from rlrun.engine.envs.episode_position import EpisodePosition, EpisodeSeeds
from rlrun.engine.envs.factory_call import check_call, made_by
from rlrun.engine.envs.spaces import Spaces, action_mismatch, check_spaces
from rlrun.engine.envs.step_marks import ALL_SLOTS, StepMarks
from rlrun.engine.envs.vector_env import (
    NO_COLUMNS,
    BadReturn,
    EnvError,
    Infos,
    Tree,
    VectorEnv,
    begin_unsupported,
    close_or_warn,
    describe_positions,
    env_error,
    first_not_finite,
)
from rlrun.engine.messages.errors import EnvironmentUnusable

if TYPE_CHECKING:
    from rlrun.engine.envs.tasks import Lessons

NOT_SAID = frozenset({"env_id", "players"})
"""Info keys that are dropped, since they only identify the env slot."""


class GymnasiumVectorEnv:
    """Adapter for a Gymnasium vector env with NEXT_STEP autoreset that is seeded once for all env slots.

    Env slots cannot be reset individually, so `restore` starts new episodes in all of them.

    Args:
        name: Name of the env backend.
        env_id: Name of the env in messages.
        start: Function that creates and resets the vector env with a seed per env slot; returns env and first
            observations.
        spaces: Observation and action space of one env slot.
        seeds: Episode seeds, a function of env slot and episode number.
        num_envs: Number of env slots.
        first_episodes: Index of each env slot's first episode.
        made: The vector env, if it was created before `start`.
    """

    seeds_episodes = False
    columns = NO_COLUMNS

    def __init__(
        self,
        name: str,
        env_id: str,
        start: Callable[[list[int]], tuple[gymnasium.vector.VectorEnv[Any, Any, Any], Tree]],
        spaces: tuple[gymnasium.Space[Any], gymnasium.Space[Any]],
        seeds: EpisodeSeeds,
        num_envs: int,
        first_episodes: Sequence[int] | None = None,
        made: gymnasium.vector.VectorEnv[Any, Any, Any] | None = None,
    ) -> None:
        self.name = name
        self.num_envs = num_envs
        self.observation_space, self.action_space = spaces
        self._env_id = env_id
        self._start = start
        self._seeds = seeds
        self._ledger = EpisodeLedger(seeds, num_envs, first_episodes)
        self._env = made
        self._awaiting = np.zeros(num_envs, dtype=bool)
        self._lengths = np.zeros(num_envs, dtype=np.int64)
        self._unchecked = True

    def reset(self) -> Tree:
        """Starts the first episode of every env slot; the wrapped vector env accepts a single seed for all slots."""
        return self._start_all(self._ledger.start_over())

    @watched_env_call(lambda own: own["self"]._where())
    def step(self, actions: Tree) -> tuple[Tree, NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_], Infos]:
        """Steps all env slots; a slot whose episode ended is reset instead (NEXT_STEP autoreset)."""
        if self._unchecked:
            reason = action_mismatch(self.action_space, actions, self.num_envs)
            if reason:
                raise EnvError(f"env {self._env_id}: invalid actions: {reason}")
            self._unchecked = False
        assert self._env is not None, "call reset before step"
        self._lengths += ~self._awaiting
        self._marks.slot[0] = ALL_SLOTS
        try:
            observations, rewards, terminateds, truncateds, infos = self._env.step(actions)
        except (Exception, SystemExit) as error:
            raise env_error(self._env_id, "step()", self._where(), error) from error
        rewards = self._of_slots("rewards", rewards, np.float64)
        terminateds = self._of_slots("terminateds", terminateds, np.bool_)
        truncateds = self._of_slots("truncateds", truncateds, np.bool_)
        begun = np.flatnonzero(self._awaiting).tolist()
        for slot in begun:
            self._ledger.begin_next(slot)
            self._lengths[slot] = 0
            rewards[slot] = 0.0
            terminateds[slot] = truncateds[slot] = False
        self._marks.begin_together({slot: self._ledger.place(slot, 0) for slot in begun})
        self._marks.rest()
        self._awaiting = terminateds | truncateds
        said: Infos = {}
        for slot in np.flatnonzero(self._awaiting).tolist():
            info = slot_info(infos, slot)
            if info:
                said[slot] = info
        if (bad := first_not_finite(rewards)) is not None:
            (slot,) = bad
            reason = f"the reward must be a finite number, not {rewards[slot]}"
            env = self._seeds.first_slot + slot
            self._refuse("step()", f"worker {self._seeds.worker_index}, env {env}, {self.places()[slot]}", reason)
        return self._arrays("step()", observations), rewards, terminateds, truncateds, said

    def begin(self, slots: Sequence[int], seeds: Sequence[int]) -> Tree:
        """Raises a UsageError, since env slots cannot be seeded individually."""
        raise begin_unsupported(
            self._env_id, f"backend: {self.name} can seed only all env slots together; use backend: loop"
        )

    def places(self) -> list[EpisodePosition]:
        """Returns the current position of each env slot: episode number, seed and episode length so far."""
        return self._ledger.places(self._lengths.tolist())

    def restore(
        self, places: Sequence[EpisodePosition], actions: Sequence[Tree], hashes: Sequence[str], max_replay_s: float
    ) -> tuple[Tree, list[bool]]:
        """Starts the next episode of every env slot; there is no replay, since slots cannot be seeded individually."""
        for slot, place in enumerate(places):
            self._ledger.return_to(slot, place)
        next_seeds = [self._ledger.begin_next(slot) for slot in range(self.num_envs)]
        return self._start_all(next_seeds), [False] * self.num_envs

    def close(self) -> None:
        """Closes the vector env."""
        if self._env is not None:
            close_or_warn(self._env.close, self._env_id, self._where())

    @cached_property
    def _marks(self) -> StepMarks:
        """Step marks, created with the first episode, so that an env created only for its spaces writes none."""
        return StepMarks(self._env_id, self._seeds, self.num_envs)

    @watched_env_call(lambda own: own["self"]._where())
    def _start_all(self, seeds: list[int]) -> Tree:
        self._awaiting = np.zeros(self.num_envs, dtype=bool)
        self._lengths = np.zeros(self.num_envs, dtype=np.int64)
        self._unchecked = True
        self._marks.begin_together(dict(enumerate(self.places())))
        try:
            self._env, observations = self._start(seeds)
        except (Exception, SystemExit) as error:
            starts = all(place.episode == 0 for place in self.places())
            raise env_error(self._env_id, "reset()", self._where(), error, starts=starts) from error
        self._marks.rest()
        return self._arrays("reset()", observations)

    def _arrays(self, doing: str, observations: Any) -> Tree:
        """Converts a batch of observations to a tree of arrays with the space's dtypes.

        Bounds are not validated: EnvPool declares wrong ones for some tasks, which users cannot correct.
        """
        try:
            return _arrays(self.observation_space, observations, self.num_envs)
        except ValueError as reason:
            self._refuse(doing, self._where(), str(reason))

    def _of_slots(self, what: str, values: Any, dtype: type[np.generic]) -> NDArray[Any]:
        """Returns a validated copy of a step's rewards or flags, [B]."""
        given = np.asarray(values)
        if given.dtype.kind not in ("biu" if dtype is np.bool_ else "biuf"):
            kinds = "True or False" if dtype is np.bool_ else "numbers"
            self._refuse("step()", self._where(), f"{what} must be {kinds}, not {given.dtype}")
        array = np.array(given, dtype)
        if array.shape != (self.num_envs,):
            self._refuse("step()", self._where(), f"{what} must have shape {(self.num_envs,)}, not {array.shape}")
        return array

    def _refuse(self, doing: str, where: str, reason: str) -> NoReturn:
        raise BadReturn(f"env {self._env_id} returned an invalid result from {doing} ({where}): {reason}")

    def _where(self) -> str:
        return f"worker {self._seeds.worker_index}, {describe_positions('env', self.places())}"


def make_gymnasium(
    config: EnvConfig, num_envs: int, seeds: EpisodeSeeds, first_episodes: Sequence[int] | None = None
) -> GymnasiumVectorEnv:
    """Creates a vector env that is registered with Gymnasium, or that a factory returns.

    Raises:
        UsageError: The factory does not accept the keyword arguments.
        EnvironmentUnusable: A package is not installed, the factory does not return a Gymnasium vector env with
            `num_envs` slots, or the env's autoreset mode is not NEXT_STEP.
        EnvError: The env's own code raised.
    """
    where = f"worker {seeds.worker_index}"
    with Watched(f"env {config.id}: making it ({where})"):
        if is_factory(config.id):
            env = made_by(factory_of(config), config.id, {**config.kwargs, "num_envs": num_envs}, {}, where)
        else:
            env = _registered(config, num_envs, where)
    if not isinstance(env, gymnasium.vector.VectorEnv) or env.num_envs != num_envs:
        found = f"{env.num_envs} envs" if isinstance(env, gymnasium.vector.VectorEnv) else f"a {type(env).__name__}"
        raise EnvironmentUnusable(
            f"env {config.id}: its factory, called with num_envs={num_envs}, must return a "
            f"gymnasium.vector.VectorEnv with that many envs, not {found}"
        )
    if env.metadata.get("autoreset_mode") is not gymnasium.vector.AutoresetMode.NEXT_STEP:
        remedy = "declare AutoresetMode.NEXT_STEP in its metadata" if is_factory(config.id) else "use backend: loop"
        raise EnvironmentUnusable(f"env {config.id}: its vector env does not declare next-step autoreset; {remedy}")
    check_spaces(config.id, env.single_observation_space, env.single_action_space)
    env = with_vector_action_masks(env)
    spaces = env.single_observation_space, env.single_action_space

    def start(slot_seeds: list[int]) -> tuple[gymnasium.vector.VectorEnv[Any, Any, Any], Tree]:
        observations, _ = env.reset(seed=slot_seeds[0])
        return env, observations

    return GymnasiumVectorEnv("gymnasium", config.id, start, spaces, seeds, num_envs, first_episodes, made=env)


class GymnasiumBackend(EnvBackend):
    """Env backend for Gymnasium vector envs, which are created from a registered id or by a factory."""

    @override
    def check(self, config: EnvConfig) -> None:
        check_gymnasium(config)

    @override
    def make(
        self,
        config: EnvConfig,
        num_envs: int,
        seeds: EpisodeSeeds,
        first_episodes: Sequence[int] | None,
        lessons: Lessons | None,
    ) -> VectorEnv:
        return make_gymnasium(config, num_envs, seeds, first_episodes)

    @override
    def make_single(self, config: EnvConfig, render_mode: str | None, seed: int) -> gymnasium.Env[Any, Any]:
        if is_factory(config.id):
            raise EnvironmentUnusable(f"env {config.id} is a gymnasium.vector env, which has no single-env version")
        return backend("loop").make_single(config, render_mode, seed)

    @override
    def spaces(self, config: EnvConfig) -> Spaces:
        made = self.make(config, config.fixed_num_envs or 1, EpisodeSeeds(0, 0), None, None)
        made.close()
        spaces = Spaces(made.observation_space, made.action_space)
        check_action_mask(*spaces)
        return spaces


def check_gymnasium(config: EnvConfig) -> None:
    """Validates the config of a vector env without creating the env.

    Raises:
        UsageError: The factory does not accept the keyword arguments.
        EnvironmentUnusable: A package is not installed.
    """
    if is_factory(config.id):
        check_call(factory_of(config), (), {**config.kwargs, "num_envs": 1}, f"env {config.id}")
    else:
        check_installed(find_spec(config.id))


def _registered(config: EnvConfig, num_envs: int, where: str) -> Any:
    """Creates the vector env that is registered with Gymnasium under an env id."""
    spec = find_spec(config.id)
    check_installed(spec)
    limit = {} if config.max_episode_steps is None else {"max_episode_steps": config.max_episode_steps}
    try:
        with warnings.catch_warnings():
            # Gymnasium warns about an undeclared autoreset mode; the caller refuses it.
            warnings.filterwarnings("ignore", r".*The VectorEnv .* metadata", UserWarning)
            return gymnasium.make_vec(spec, num_envs, "vector_entry_point", **{**config.kwargs, **limit})
    except (Exception, SystemExit) as error:
        raise env_error(config.id, "its constructor", where, error, starts=True) from error


def slot_info(infos: Mapping[str, Any], slot: int) -> dict[str, Any]:
    """Extracts the info of one env slot from a vector env's info.

    Gymnasium's infos hold an array for each key and, under the key with an underscore prefix, a mask of the env slots
    with that key; without a mask, all env slots have the key.
    """
    said = {}
    for key, values in infos.items():
        mask = infos.get(f"_{key}")
        if str(key).startswith("_") or key in NOT_SAID or (mask is not None and not mask[slot]):
            continue
        value = slot_info(values, slot) if isinstance(values, Mapping) else values[slot]
        if not isinstance(value, dict) or value:
            said[key] = value
    return said


def _arrays(space: gymnasium.Space[Any], observations: Any, num_envs: int, path: str = "") -> Tree:
    """Converts a batch of observations to a tree of arrays with the space's dtypes.

    Raises:
        ValueError: Observations differ from the space in structure or shape, or have fractions in an integer space.
    """
    at = f" at '{path[1:]}'" if path else ""
    if isinstance(space, Dict):
        if not isinstance(observations, Mapping) or not space.keys() <= observations.keys():
            raise ValueError(f"the observations{at} must be a dict of arrays: {', '.join(space.keys())}")
        return {key: _arrays(part, observations[key], num_envs, f"{path}/{key}") for key, part in space.items()}
    if isinstance(space, Tuple):
        if not isinstance(observations, Sequence) or len(observations) != len(space.spaces):
            raise ValueError(f"the observations{at} must be a tuple of {len(space.spaces)} batches")
        parts = enumerate(zip(space, observations, strict=True))
        return tuple(_arrays(part, batch, num_envs, f"{path}/{number}") for number, (part, batch) in parts)
    shape, dtype = known_kind(space).form(space)
    array, expected = np.asarray(observations), (num_envs, *shape)
    if array.shape != expected:
        raise ValueError(f"the observations{at} have shape {array.shape}, but their space has {expected}")
    if array.dtype.kind not in "biu" and np.issubdtype(dtype, np.integer):
        raise ValueError(f"the observations{at} have dtype {array.dtype}, but their space has {dtype}")
    return array.astype(dtype, copy=False)
