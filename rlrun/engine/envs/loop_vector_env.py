"""Sequential vector env backend: steps single Gymnasium envs in a loop in this process."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import gymnasium
import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from rlrun.engine.data.tree import map_tree
from rlrun.engine.envs.backend import EnvBackend
from rlrun.engine.envs.env_watch import watched_env_call
from rlrun.engine.envs.episode_ledger import EpisodeLedger
from rlrun.engine.envs.episode_position import EpisodePosition, EpisodeSeeds
from rlrun.engine.envs.single_env import check_single_env, make_single_env
from rlrun.engine.envs.spaces import SpaceMismatch, action_mismatch, empty_batch, mismatch, row_splitter, row_writer
from rlrun.engine.envs.step_columns import reading_columns
from rlrun.engine.envs.step_marks import NO_SLOT, StepMarks
from rlrun.engine.envs.vector_env import (
    BadReturn,
    EnvError,
    Infos,
    Tree,
    VectorEnv,
    close_or_warn,
    env_error,
    first_not_finite,
    observation_hash,
    require_separate,
)
from rlrun.engine.messages.errors import EnvironmentUnusable
from rlrun.engine.settings.registry import load_internal

if TYPE_CHECKING:
    from rlrun.engine.envs.env_config import EnvConfig
    from rlrun.engine.envs.tasks import Lessons

_FLAG = (bool, np.bool_)

KEEPS_STATISTICS = "rlrun.engine.envs.running_statistics:keeps_statistics"
"""Import path of the function that finds wrappers whose state is not restored by a replay."""


class LoopVectorEnv:
    """Vector env that steps single envs in a loop, with observations in one preallocated batch.

    Return values are fully validated at each reset and at the first step after `reset` or `restore`. Later steps check
    only the rewards, the shape and dtype of observations, and, when an episode ends, the types of the termination and
    truncation flags.

    Args:
        env_id: Name of the env in messages.
        envs: Single environments with equal spaces, one for each env slot.
        seeds: Episode seeds, a function of env slot and episode number.
        first_episodes: Index of each env slot's first episode.
        columns: Names of the numbers in each step's info that are recorded as columns.
    """

    name = "loop"
    seeds_episodes = True

    def __init__(
        self,
        env_id: str,
        envs: Sequence[gymnasium.Env[Any, Any]],
        seeds: EpisodeSeeds,
        first_episodes: Sequence[int] | None = None,
        columns: Sequence[str] = (),
    ) -> None:
        self.num_envs = len(envs)
        self.observation_space = envs[0].observation_space
        self.action_space = envs[0].action_space
        self._env_id = env_id
        self._envs = list(envs)
        self._steps = [env.step for env in envs]
        self.columns: Mapping[str, NDArray[np.float64]] = {name: np.zeros(self.num_envs) for name in columns}
        if columns:
            self._steps = [reading_columns(env_step, self.columns, slot) for slot, env_step in enumerate(self._steps)]
        self._slots = range(self.num_envs)
        self._marks = StepMarks(env_id, seeds, self.num_envs)
        self._seeds = seeds
        self._ledger = EpisodeLedger(seeds, self.num_envs, first_episodes)
        self._observations = empty_batch(self.observation_space, self.num_envs)
        self._write = row_writer(self.observation_space, self._observations)
        self._rows = row_splitter(self.action_space)
        self._rewards = np.zeros(self.num_envs)
        # Writing to a memoryview takes half the time and refuses the text "1", which the array would convert.
        self._reward_of = self._rewards.data.cast("B").cast("d")
        self._terminateds = np.zeros(self.num_envs, dtype=bool)
        self._truncateds = np.zeros(self.num_envs, dtype=bool)
        self._awaiting = [False] * self.num_envs
        self._lengths = [0] * self.num_envs
        self._unchecked = True

    def reset(self) -> Tree:
        """Starts the first episode of every env slot with its own seed."""
        for slot, seed in enumerate(self._ledger.start_over()):
            self._reset_slot(slot, seed)
        self._marks.rest()
        self._unchecked = True
        return self._observations

    @watched_env_call(lambda own: own["self"]._where(own["slot"]))
    def step(self, actions: Tree) -> tuple[Tree, NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_], Infos]:
        """Steps all env slots; a slot whose episode ended is reset instead (NEXT_STEP autoreset)."""
        if self._unchecked:
            return self._first_step(actions)
        rewards, terminateds, truncateds = self._reward_of, self._terminateds, self._truncateds
        awaiting, lengths, write, mark = self._awaiting, self._lengths, self._write, self._marks.slot
        infos: Infos = {}
        terminateds.fill(False)
        truncateds.fill(False)
        slot, result = 0, None
        try:
            for slot, env_step, action in zip(self._slots, self._steps, self._rows(actions), strict=True):
                mark[0], result = slot, None
                if awaiting[slot]:
                    self._reset_slot(slot, self._ledger.begin_next(slot))
                    rewards[slot] = 0.0
                    continue
                lengths[slot] += 1
                result = observation, reward, terminated, truncated, info = env_step(action)
                write(slot, observation)
                rewards[slot] = reward
                if terminated or truncated:
                    if not (isinstance(terminated, _FLAG) and isinstance(truncated, _FLAG)):
                        raise TypeError("terminated and truncated must be True or False")
                    terminateds[slot] = terminated
                    truncateds[slot] = truncated
                    awaiting[slot] = True
                    if info:
                        infos[slot] = info
            mark[0] = NO_SLOT
        except EnvError:
            raise
        except SpaceMismatch as error:
            self._refuse("step()", slot, str(error))
        except (Exception, SystemExit) as error:
            if result is not None:  # full validation finds out what was wrong
                self._validate_step(slot, result)
            raise env_error(self._env_id, "step()", self._where(slot), error) from error
        if (bad := first_not_finite(self._rewards)) is not None:
            self._refuse("step()", bad[0], f"the reward must be a finite number, not {self._rewards[bad]}")
        return self._observations, self._rewards, terminateds, truncateds, infos

    def begin(self, slots: Sequence[int], seeds: Sequence[int]) -> Tree:
        """Starts new episodes with given seeds in some env slots; see `VectorEnv.begin`."""
        for slot, seed in zip(slots, seeds, strict=True):
            self._ledger.return_to(slot, self._ledger.chosen(slot, seed))
            self._reset_slot(slot, seed)
        self._marks.rest()
        return self._observations

    def places(self) -> list[EpisodePosition]:
        """Returns the current position of each env slot: episode number, seed and episode length so far."""
        return self._ledger.places(self._lengths)

    def restore(
        self, places: Sequence[EpisodePosition], actions: Sequence[Tree], hashes: Sequence[str], max_replay_s: float
    ) -> tuple[Tree, list[bool]]:
        """Restores the env slots, one after another, to saved steps of their episodes; see `VectorEnv.restore`."""
        deadline, keeps_statistics = time.monotonic() + max_replay_s, load_internal(KEEPS_STATISTICS)
        exact = []
        for slot, place in enumerate(places):
            self._ledger.return_to(slot, place)
            self._reset_slot(slot, place.seed)
            replays = not keeps_statistics(self._envs[slot])
            exact.append(replays and self._replay(slot, place, actions[slot], hashes[slot], deadline))
            if not exact[-1]:
                self._reset_slot(slot, self._ledger.begin_next(slot))
        self._marks.rest()
        self._unchecked = True
        return self._observations, exact

    def close(self) -> None:
        """Closes the environments."""
        for slot, env in enumerate(self._envs):
            close_or_warn(env.close, self._env_id, self._where(slot))

    @watched_env_call(lambda own: own["self"]._where(own["slot"]))
    def _replay(self, slot: int, place: EpisodePosition, actions: Tree, saved_hash: str, deadline: float) -> bool:
        """Replays an env slot's actions after its reset; returns whether observation and return equal the saved ones.

        The return of an episode that has ended is not saved.
        """
        env_step, rewards = self._steps[slot], []
        try:
            for action in self._rows(actions):
                if self._awaiting[slot] or time.monotonic() > deadline:
                    return False
                self._lengths[slot] += 1
                observation, reward, terminated, truncated, _ = env_step(action)
                self._write(slot, observation)
                rewards.append(float(reward))
                self._awaiting[slot] = bool(terminated or truncated)
        except (Exception, SystemExit) as error:
            raise env_error(self._env_id, "step()", self._where(slot), error) from error
        expected = sum(rewards) if place.episode_return is None or self._awaiting[slot] else place.episode_return
        # The tolerance allows for rounding, which depends on the order of summation.
        if not math.isclose(sum(rewards), expected, rel_tol=0.0, abs_tol=1e-9 * sum(map(abs, rewards))):
            return False
        row = map_tree(lambda leaf: leaf[slot], self._observations)
        return self._lengths[slot] == place.length and observation_hash(row) == saved_hash

    @watched_env_call(lambda own: own["self"]._where(own["slot"]))
    def _reset_slot(self, slot: int, seed: int) -> None:
        """Resets an env slot to the ledger's current episode."""
        self._awaiting[slot] = False
        self._lengths[slot] = 0
        self._marks.begin(slot, self._ledger.place(slot, 0).episode, seed)
        try:
            observation, info = self._envs[slot].reset(seed=seed)
        except (Exception, SystemExit) as error:
            starts = self._ledger.place(slot, 0).episode == 0
            raise env_error(self._env_id, "reset()", self._where(slot), error, starts=starts) from error
        self._check_observation("reset()", slot, observation)
        if not isinstance(info, dict):
            self._refuse("reset()", slot, f"the info must be a dict, not {type(info).__name__}")
        self._write(slot, observation)

    def _first_step(
        self, actions: Tree
    ) -> tuple[Tree, NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_], Infos]:
        """Steps all env slots with full validation of actions and return values."""
        reason = action_mismatch(self.action_space, actions, self.num_envs)
        if reason:
            raise EnvError(f"env {self._env_id}: invalid actions: {reason}")
        self._unchecked = False
        plain = self._steps
        self._steps = [self._checked(slot, env_step) for slot, env_step in enumerate(plain)]
        try:
            return self.step(actions)
        finally:
            self._steps = plain

    def _checked(self, slot: int, env_step: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """Wraps an env slot's step function with full validation of the return values."""

        def step(action: Any) -> Any:
            result = env_step(action)
            self._validate_step(slot, result)
            return result

        return step

    def _validate_step(self, slot: int, result: Any) -> None:
        """Validates the return value of a step; raises an error if it is invalid."""
        if not isinstance(result, tuple) or len(result) != 5:
            size = f"a tuple of {len(result)}" if isinstance(result, tuple) else f"a {type(result).__name__}"
            self._refuse(
                "step()", slot, f"it must return (observation, reward, terminated, truncated, info), not {size}"
            )
        observation, reward, terminated, truncated, info = result
        self._check_observation("step()", slot, observation)
        if np.ndim(reward) or not isinstance(reward, int | float | np.number | np.bool_ | np.ndarray):
            self._refuse("step()", slot, f"the reward must be a number, not {reward!r}")
        for name, flag in (("terminated", terminated), ("truncated", truncated)):
            if not isinstance(flag, _FLAG):
                self._refuse("step()", slot, f"{name} must be True or False, not {flag!r}")
        if not isinstance(info, dict):
            self._refuse("step()", slot, f"the info must be a dict, not {type(info).__name__}")

    def _check_observation(self, doing: str, slot: int, observation: Any) -> None:
        reason = mismatch(self.observation_space, observation)
        if reason:
            self._refuse(doing, slot, reason)

    def _refuse(self, doing: str, slot: int, reason: str) -> NoReturn:
        raise BadReturn(f"env {self._env_id} returned an invalid result from {doing} ({self._where(slot)}): {reason}")

    def _where(self, slot: int) -> str:
        place, seeds = self._ledger.place(slot, self._lengths[slot]), self._seeds
        return f"worker {seeds.worker_index}, env {seeds.first_slot + slot}, {place}"


class LoopBackend(EnvBackend):
    """Env backend for envs without a vector form: steps single envs in a loop."""

    @override
    def check(self, config: EnvConfig) -> None:
        check_single_env(config)

    @override
    def make(
        self,
        config: EnvConfig,
        num_envs: int,
        seeds: EpisodeSeeds,
        first_episodes: Sequence[int] | None,
        lessons: Lessons | None,
    ) -> VectorEnv:
        firsts = first_episodes or [0] * num_envs
        envs = [
            make_single_env(
                config,
                worker_index=seeds.worker_index,
                env_index=seeds.first_slot + slot,
                seed=seeds.seed(slot, firsts[slot]),
                lessons=lessons,
            )
            for slot in range(num_envs)
        ]
        require_separate(config.id, [env.unwrapped for env in envs])
        for slot, env in enumerate(envs):
            if (env.observation_space, env.action_space) != (envs[0].observation_space, envs[0].action_space):
                raise EnvironmentUnusable(
                    f"env {config.id}: all env slots must have the same spaces, but slot 0 has "
                    f"{envs[0].observation_space}, {envs[0].action_space}, and slot {slot} has "
                    f"{env.observation_space}, {env.action_space}"
                )
        return LoopVectorEnv(config.id, envs, seeds, first_episodes, config.columns)

    @override
    def make_single(self, config: EnvConfig, render_mode: str | None, seed: int) -> gymnasium.Env[Any, Any]:
        return make_single_env(config, render_mode=render_mode, seed=seed)
