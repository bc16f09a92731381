"""Vectorized CartPole in batched NumPy with a seed for each episode of each env slot."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium.envs.classic_control.cartpole import CartPoleVectorEnv
from numpy.typing import NDArray
from typing_extensions import override

from rlrun.engine.envs.backend import SINGLE_ENV, EnvBackend
from rlrun.engine.envs.cartpole_motion import CartPoleMotion
from rlrun.engine.envs.env_ids import find_spec
from rlrun.engine.envs.episode_ledger import EpisodeLedger
from rlrun.engine.envs.episode_position import EpisodePosition, EpisodeSeeds
from rlrun.engine.envs.lockstep_restore import restore_in_lockstep
from rlrun.engine.envs.spaces import Spaces, action_mismatch
from rlrun.engine.envs.vector_env import NO_COLUMNS, EnvError, Infos, Tree, VectorEnv
from rlrun.engine.settings.registry import load_internal

if TYPE_CHECKING:
    import gymnasium

    from rlrun.engine.envs.env_config import EnvConfig
    from rlrun.engine.envs.tasks import Lessons


BATCHED_VIEW = "rlrun.engine.envs.batched_observation:BatchedView"
"""Import path of the vector env that applies batched wrappers."""


class SeededCartPole(CartPoleVectorEnv):  # type: ignore[misc]  # gymnasium is not type-checked
    """Vectorized CartPole whose env slots are reset with separate seeds.

    Gymnasium's vector CartPole samples all initial states from one generator. Here every env slot equals
    ``gymnasium.make("CartPole-v1")`` reset with the episode's seed, bit for bit (`CartPoleMotion`).

    Args:
        num_envs: Number of env slots, B.
        max_episode_steps: Steps after which an episode is truncated.
        seeds: Episode seeds, a function of env slot and episode number.
        first_episodes: Episode number at which each env slot begins.
        sutton_barto_reward: Whether rewards are 0 per step and -1 at termination, instead of 1 per step.
    """

    name = "cartpole"
    seeds_episodes = True
    columns = NO_COLUMNS

    def __init__(
        self,
        num_envs: int,
        max_episode_steps: int,
        seeds: EpisodeSeeds,
        *,
        first_episodes: Sequence[int] | None = None,
        sutton_barto_reward: bool = False,
    ) -> None:
        super().__init__(num_envs, max_episode_steps, sutton_barto_reward=sutton_barto_reward)
        self.observation_space = self.single_observation_space
        self.action_space = self.single_action_space
        self._ledger = EpisodeLedger(seeds, num_envs, first_episodes)
        self._awaiting: list[int] = []
        self._unchecked = True
        self._lengths = np.zeros(num_envs, dtype=np.int64)
        self._longest = np.array(max_episode_steps)
        self._motion = CartPoleMotion(num_envs)
        self._state = self._motion.state
        self._terminateds, self._truncateds, self._ended = np.zeros((3, num_envs), dtype=bool)
        self._rewards = np.zeros(num_envs)
        self._observations = np.zeros((num_envs, 4), dtype=np.float32)

    def reset(self) -> Tree:
        """Starts the first episode of every env slot with its own seed."""
        self._ledger.start_over()
        for slot in range(self.num_envs):
            self._start(slot)
        self._unchecked = True
        return self._observe(range(self.num_envs))

    def step(self, actions: Tree) -> tuple[Tree, NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_], Infos]:
        """Steps all env slots; a slot whose episode ended is reset instead (NEXT_STEP autoreset)."""
        if self._unchecked:
            self._check(actions)
        rewards, terminateds, truncateds = self._rewards, self._terminateds, self._truncateds
        self._motion.move(actions, terminateds)
        self._lengths += 1
        np.greater_equal(self._lengths, self._longest, truncateds)
        if self._sutton_barto_reward:
            rewards.fill(0.0)
            rewards[terminateds] = -1.0
        else:
            rewards.fill(1.0)
        for slot in self._awaiting:
            self._ledger.begin_next(slot)
            self._start(slot)
            rewards[slot] = 0.0
            terminateds[slot] = truncateds[slot] = False
        np.logical_or(terminateds, truncateds, self._ended)
        self._awaiting = self._ended.nonzero()[0].tolist() if np.add.reduce(self._ended) else []
        self._observations[:] = self._state.T
        return self._observations, rewards, terminateds, truncateds, {}

    def begin(self, slots: Sequence[int], seeds: Sequence[int]) -> Tree:
        """Starts new episodes with given seeds in some env slots; see `VectorEnv.begin`."""
        chosen = zip(slots, seeds, strict=True)
        return self.start_at({slot: self._ledger.chosen(slot, seed) for slot, seed in chosen})

    def places(self) -> list[EpisodePosition]:
        """Returns the current position of each env slot: episode number, seed and episode length so far."""
        return self._ledger.places(self._lengths.tolist())

    def restore(
        self, places: Sequence[EpisodePosition], actions: Sequence[Tree], hashes: Sequence[str], max_replay_s: float
    ) -> tuple[Tree, list[bool]]:
        """Returns all env slots to saved steps of their episodes by replaying actions in lockstep.

        See `VectorEnv.restore`.
        """
        self._unchecked = True
        return restore_in_lockstep(self, places, actions, hashes, max_replay_s)

    def start_at(self, places: dict[int, EpisodePosition]) -> Tree:
        """Resets some env slots, each to the start of a saved episode; returns the observations of all env slots.

        Args:
            places: Saved position (episode, seed, step) by index of the env slot to reset; the step is ignored.
        """
        for slot, place in places.items():
            self._ledger.return_to(slot, place)
            self._start(slot)
        return self._observe(places)

    def start_after(self, places: dict[int, EpisodePosition]) -> Tree:
        """Resets some env slots, each to the episode after a saved one; returns the observations of all env slots.

        Args:
            places: Saved position (episode, seed, step) by index of the env slot to reset.
        """
        for slot, place in places.items():
            self._ledger.return_to(slot, place)
            self._ledger.begin_next(slot)
            self._start(slot)
        return self._observe(places)

    def _start(self, slot: int) -> None:
        """Samples the initial state of an env slot's current episode in the ledger."""
        self._motion.start(slot, self._ledger.generator(slot))
        self._lengths[slot] = 0

    def _observe(self, started: Collection[int]) -> Tree:
        """Returns the observations of all env slots after resets outside of `step`."""
        self._awaiting = [slot for slot in self._awaiting if slot not in started]
        self._observations[:] = self._state.T
        return self._observations

    def _check(self, actions: Tree) -> None:
        """Validates the first batch of actions after a reset; later batches come from the same policy."""
        reason = action_mismatch(self.action_space, actions, self.num_envs)
        if reason:
            raise EnvError(f"CartPole: invalid actions: {reason}")
        self._unchecked = False


class CartPoleBackend(EnvBackend):
    """Env backend for vectorized CartPole; if a single env is needed, it creates Gymnasium's CartPole."""

    @override
    def check(self, config: EnvConfig) -> None:
        load_internal(SINGLE_ENV["check"])(config)

    @override
    def make(
        self,
        config: EnvConfig,
        num_envs: int,
        seeds: EpisodeSeeds,
        first_episodes: Sequence[int] | None,
        lessons: Lessons | None,
    ) -> VectorEnv:
        spec = find_spec(config.id)
        limit = config.max_episode_steps or spec.max_episode_steps
        kwargs = {**spec.kwargs, **config.kwargs}
        env = SeededCartPole(num_envs, limit, seeds, first_episodes=first_episodes, **kwargs)
        if not config.wrappers:
            return env
        view: VectorEnv = load_internal(BATCHED_VIEW)(env, self.make_single(config, None, 0))
        return view

    @override
    def make_single(self, config: EnvConfig, render_mode: str | None, seed: int) -> gymnasium.Env[Any, Any]:
        env: gymnasium.Env[Any, Any] = load_internal(SINGLE_ENV["make"])(config, render_mode=render_mode, seed=seed)
        return env

    @override
    def spaces(self, config: EnvConfig) -> Spaces:
        if config.wrappers:
            return super().spaces(config)
        env = CartPoleVectorEnv()
        return Spaces(env.single_observation_space, env.single_action_space)
