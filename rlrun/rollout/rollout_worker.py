"""The rollout worker: envs and behavior policies in, fragments of experience out.

A plain class: it runs in the trial's own process or inside an actor, and imports neither ray nor, for dense networks,
torch.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlrun.data.sample_batch import SampleBatch
from rlrun.data.tree import map_tree
from rlrun.envs.env_config import EnvConfig
from rlrun.envs.make import make_vector_env
from rlrun.envs.vector_env import EpisodePlace, EpisodeSeeds, observation_hash
from rlrun.functional.moments import Moments
from rlrun.functional.seeding import generator
from rlrun.policy.behavior import BehaviorPolicy
from rlrun.policy.weights import Weights
from rlrun.rollout.phases import ENV_STEP, INFERENCE, PhaseClock
from rlrun.rollout.rewards import RETURNS, RewardTransform
from rlrun.rollout.rollout import DEFAULT_POLICY, Episode, Rollout

NOISE_CELLS = 32
"""Steps, over all columns, for which short fragments draw their noise together: a generator of its own for each would
take longer than the steps."""


@dataclass(frozen=True)
class WorkerConfig:
    """What a rollout worker is made from; picklable.

    Attributes:
        env: The environment.
        num_envs: B, parallel columns.
        fragment_length: T, steps in a fragment.
        seed: Root seed of the trial.
        behaviors: What acts, by policy.
        gamma: Discount, for reward scaling.
        clip_rewards: Bound of the rewards that are learned from, or None.
        normalize_rewards: Whether they are divided by the deviation of discounted returns.
        worker_index: 0 in the trial's own process, from 1 in actors.
        num_workers: How many workers there are, the local one included.
        first_fragment: Number of its first fragment; above 0 for a worker made anew in place of a dead one, whose
            noise and episodes then go on with numbers that the dead one never reached.
    """

    env: EnvConfig
    num_envs: int
    fragment_length: int
    seed: int
    behaviors: dict[str, BehaviorPolicy]
    gamma: float
    clip_rewards: float | None = None
    normalize_rewards: bool = False
    worker_index: int = 0
    num_workers: int = 1
    first_fragment: int = 0


class RolloutWorker:
    """Steps a vector env and asks the behavior policy once per step for all columns."""

    def __init__(self, config: WorkerConfig) -> None:
        """Makes the envs; they are reset at the first sample."""
        self.config = config
        self.behaviors = config.behaviors
        self.env = make_vector_env(
            config.env,
            config.num_envs,
            EpisodeSeeds(config.seed, config.worker_index),
            first_episodes=[config.first_fragment * config.fragment_length] * config.num_envs,
        )
        self._rewards = RewardTransform(
            config.num_envs, config.gamma, clip=config.clip_rewards, scale=config.normalize_rewards
        )
        self._fragment = config.first_fragment
        self._observations: Any = None
        self._just_ended = np.zeros(config.num_envs, np.bool_)
        self._starts = np.ones(config.num_envs, np.bool_)
        self._returns = np.zeros(config.num_envs)
        self._lengths = np.zeros(config.num_envs, np.int64)
        self._recent_actions: list[NDArray[Any]] = []
        self._num_recent = self._most_recent = 0
        self._measures = False
        self._noise_block: tuple[int, NDArray[np.float32]] | None = None
        first_column = max(config.worker_index - 1, 0) * config.num_envs
        for behavior in self.behaviors.values():
            behavior.take_place(first_column, config.num_workers * config.num_envs)

    @property
    def behavior(self) -> BehaviorPolicy:
        """What acts in all columns."""
        return self.behaviors[DEFAULT_POLICY]

    def set_weights(self, weights: Mapping[str, Weights]) -> None:
        """Takes over new weights and filter statistics, by policy."""
        for policy, latest in weights.items():
            self.behaviors[policy].load(latest)
        self._rewards.moments = weights[DEFAULT_POLICY].filters.get(RETURNS, Moments.empty(()))

    def measure_phases(self, measures: bool) -> None:
        """Says whether fragments are to tell what their time went into."""
        self._measures = measures

    def sample(self) -> Rollout:
        """Collects one fragment.

        Raises:
            EnvError: The env raised or returned something outside its spaces.
        """
        began = time.perf_counter()
        if self._observations is None:
            self._observations = self.env.reset()
        length, columns = self.config.fragment_length, self.config.num_envs
        behavior, env = self.behavior, self.env
        draw, act, step = self._noise, behavior.act, env.step
        clock = PhaseClock() if self._measures else None
        if clock is not None:
            draw, act, step = clock.timed(INFERENCE, draw), clock.timed(INFERENCE, act), clock.timed(ENV_STEP, step)
        noise = draw()
        batch = behavior.new_columns(length, columns)
        rewards = np.empty((length, columns))
        terminateds, truncateds = np.empty((length, columns), np.bool_), np.empty((length, columns), np.bool_)
        last_infos: dict[tuple[int, int], dict[str, Any]] = {}
        observations = self._observations
        recorded = map_tree(lambda leaf: np.empty((length + 1, *leaf.shape), leaf.dtype), observations)
        record_row(recorded, 0, observations)
        starts, finals = self._starts, self._just_ended
        for t in range(length):
            actions = act(observations, noise[t], batch, t, starts)
            observations, rewards[t], terminateds[t], truncateds[t], infos = step(actions)
            record_row(recorded, t + 1, observations)
            # The row behind an end holds the episode's final observation, the one behind that a first one.
            starts, finals = finals, terminateds[t] | truncateds[t]
            if infos:
                last_infos.update({(t, column): info for column, info in infos.items()})
        self._observations = map_tree(lambda leaf: leaf[-1].copy(), recorded)
        self._starts = starts
        recorded_at = time.perf_counter()
        rollout = self._delivered(batch, recorded, rewards, terminateds, truncateds, last_infos, began)
        return rollout if clock is None else dataclasses.replace(rollout, times=clock.times(recorded_at))

    def _noise(self) -> NDArray[np.float32]:
        """Returns the noise of the present fragment, which depends on its number alone."""
        length, columns = self.config.fragment_length, self.config.num_envs
        fragments = max(NOISE_CELLS // (length * columns), 1)
        block, place = divmod(self._fragment, fragments)
        if self._noise_block is None or self._noise_block[0] != block:
            draws = generator(self.config.seed, "noise", self.config.worker_index, block)
            self._noise_block = block, self.behavior.noise(draws, fragments * length, columns)
        return self._noise_block[1][place * length : (place + 1) * length]

    def _delivered(
        self,
        batch: SampleBatch,
        observations: Any,
        rewards: NDArray[np.float64],
        terminateds: NDArray[np.bool_],
        truncateds: NDArray[np.bool_],
        infos: Mapping[tuple[int, int], dict[str, Any]],
        began: float,
    ) -> Rollout:
        """Adds to a recorded fragment what is cheaper for all its steps at once."""
        ends = terminateds | truncateds
        valid = np.empty_like(ends)
        valid[0], valid[1:] = ~self._just_ended, ~ends[:-1]
        self._just_ended = ends[-1].copy()
        seen = self.behavior.observation_moments(map_tree(lambda leaf: leaf[:-1], observations))
        learned, returned = self._rewards(rewards, ends, valid)
        batch.update(
            obs=observations,
            rewards=learned,
            terminateds=terminateds,
            truncateds=truncateds,
            valid=valid,
        )
        self._remember(batch["actions"])
        self.behavior.complete(batch)
        self._fragment += 1
        return Rollout(
            worker_index=self.config.worker_index,
            fragment=self._fragment - 1,
            batches={DEFAULT_POLICY: batch},
            episodes=self._finished(rewards, ends, valid, infos),
            filter_deltas={DEFAULT_POLICY: {**seen, **returned}},
            env_steps=int(np.count_nonzero(valid)),
            weights_version=self.behavior.weights_version,
            sample_s=time.perf_counter() - began,
        )

    def _finished(
        self,
        rewards: NDArray[np.float64],
        ends: NDArray[np.bool_],
        valid: NDArray[np.bool_],
        infos: Mapping[tuple[int, int], dict[str, Any]],
    ) -> list[Episode]:
        """Returns the episodes that ended in a fragment, and carries the unfinished ones over."""
        if not np.count_nonzero(ends):
            self._returns += rewards.sum(axis=0)
            self._lengths += valid.sum(axis=0)
            return []
        returns, lengths = rewards.cumsum(axis=0), valid.cumsum(axis=0)
        episodes = []
        for t, column in zip(*ends.nonzero(), strict=True):
            episodes.append(
                Episode(
                    float(self._returns[column] + returns[t, column]),
                    int(self._lengths[column] + lengths[t, column]),
                    numbers_in(infos.get((int(t), int(column)), {})),
                )
            )
            self._returns[column], self._lengths[column] = -returns[t, column], -lengths[t, column]
        self._returns += returns[-1]
        self._lengths += lengths[-1]
        return episodes

    def _remember(self, actions: NDArray[Any]) -> None:
        """Keeps the actions since the oldest present episode's reset, in whole fragments, and at most as many again.

        Places are looked at only when so many have come together.
        """
        self._recent_actions.append(actions)
        self._num_recent += len(actions)
        if self._num_recent < self._most_recent:
            return
        longest = max(place.length for place in self.env.places())
        unneeded = 0
        while self._num_recent - len(self._recent_actions[unneeded]) >= max(longest, 1):
            self._num_recent -= len(self._recent_actions[unneeded])
            unneeded += 1
        del self._recent_actions[:unneeded]
        self._most_recent = 2 * self._num_recent

    def state(self) -> dict[str, Any]:
        """Returns where the worker is: every column as (episode, seed, actions since its reset), and its sums."""
        state: dict[str, Any] = {
            "fragment": self._fragment,
            "rewards": self._rewards.state(),
            "behaviors": {policy: behavior.state() for policy, behavior in self.behaviors.items()},
            "columns": [],
        }
        if self._observations is None:
            return state
        recent = np.concatenate(self._recent_actions)
        for column, place in enumerate(self.env.places()):
            observation = map_tree(lambda leaf, column=column: leaf[column], self._observations)
            state["columns"].append(
                {
                    "episode": place.episode,
                    "seed": place.seed,
                    "length": place.length,
                    "hash": observation_hash(observation),
                    "episode_return": float(self._returns[column]),
                    "episode_length": int(self._lengths[column]),
                    "just_ended": bool(self._just_ended[column]),
                    "starts": bool(self._starts[column]),
                    "actions": recent[len(recent) - place.length :, column].copy(),
                }
            )
        return state

    def load_state(self, state: Mapping[str, Any]) -> int:
        """Returns to where a worker was, by replaying its episodes.

        Args:
            state: What `state` returned.

        Returns:
            The number of columns that could not be brought back exactly and began a new episode instead.
        """
        self._fragment = int(state["fragment"])
        self._rewards.load_state(state["rewards"])
        for policy, behavior in self.behaviors.items():
            behavior.load_state(state["behaviors"][policy])
        columns = state["columns"]
        if not columns:
            return 0
        own_actions = [np.asarray(column["actions"]) for column in columns]
        self._observations, exact = self.env.restore(
            [EpisodePlace(column["episode"], column["seed"], column["length"]) for column in columns],
            [self.behavior.env_actions(actions) for actions in own_actions],
            [column["hash"] for column in columns],
            self.config.env.max_replay_s,
        )
        self._observations = map_tree(lambda leaf: leaf.copy(), self._observations)
        kept = np.array(exact)
        self._rewards.begin_anew(~kept)
        self._returns = np.where(kept, [column["episode_return"] for column in columns], 0.0)
        self._lengths = np.where(kept, [column["episode_length"] for column in columns], 0)
        self._just_ended = np.array([column["just_ended"] for column in columns]) & kept
        self._starts = np.array([column["starts"] for column in columns]) | ~kept
        longest = max(len(actions) for actions in own_actions)
        recent = np.zeros((longest, len(columns), *own_actions[0].shape[1:]), own_actions[0].dtype)
        for column, actions in enumerate(own_actions):
            recent[longest - len(actions) :, column] = actions
        self._recent_actions, self._num_recent = [recent], longest
        return len(columns) - int(kept.sum())

    def close(self) -> None:
        """Frees what the envs hold."""
        self.env.close()


def record_row(recorded: Any, t: int, observations: Any) -> None:
    """Copies a tree of observations [B, ...] into row t of a tree of buffers [T + 1, B, ...]."""
    if isinstance(recorded, np.ndarray):
        recorded[t] = observations
    elif isinstance(recorded, dict):
        for key, part in recorded.items():
            record_row(part, t, observations[key])
    else:
        for part, observed in zip(recorded, observations, strict=True):
            record_row(part, t, observed)


def numbers_in(info: Mapping[str, Any]) -> dict[str, float]:
    """Returns the finite numbers at the top of an info, which become metrics."""
    return {
        name: float(value)
        for name, value in info.items()
        if isinstance(value, int | float | np.number | np.bool_) and np.isfinite(float(value))
    }
