"""Recording of fragments [T, B] of experience from single-agent vector envs, whose B env slots step together.

An env's state is saved as the actions since its last reset, and restored by repeating these actions.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rlrun.engine.data.tree import map_tree
from rlrun.engine.envs.env_watch import Watched
from rlrun.engine.envs.episode_position import EpisodePosition, EpisodeSeeds
from rlrun.engine.envs.make import make_vector_env
from rlrun.engine.envs.spaces import action_mismatch, first_bad_row
from rlrun.engine.envs.vector_env import EnvError, VectorEnv, observation_hash
from rlrun.engine.functional.saved_numbers import as_count
from rlrun.engine.rollout.action_log import ActionLog
from rlrun.engine.rollout.episode_sums import EpisodeSums
from rlrun.engine.rollout.recorder import Recorded, record_row
from rlrun.engine.rollout.worker_behavior import WorkerBehavior

if TYPE_CHECKING:
    from rlrun.engine.envs.tasks import Lessons
    from rlrun.engine.replay.replay import Lend
    from rlrun.engine.rollout.worker_config import WorkerConfig


class LockstepRecorder:
    """Steps a single-agent vector env with a policy, which acts in all slots at once, and records fragments of T steps.

    Args:
        env: Vector env, which is reset when the first fragment is recorded.
        seeds: Seeds of the env slots' episodes.
        env_name: Description for messages: the env's id and the worker.
        policy: Name of the policy.
        behavior: The policy that acts.
        length: T, steps in a fragment.
        max_replay_s: Maximum seconds that a resumed run spends on repeating the actions of the current episodes.
        lenders: By policy, a function that lends memory for fragments; entries may be added later.

    Attributes:
        slots: Number of env slots B, as a dict whose key is the policy's name.
    """

    def __init__(
        self,
        env: VectorEnv,
        policy: str,
        behavior: WorkerBehavior,
        *,
        seeds: EpisodeSeeds,
        env_name: str,
        length: int,
        max_replay_s: float,
        lenders: Mapping[str, Lend],
    ) -> None:
        self.slots: Mapping[str, int] = {policy: env.num_envs}
        self._env, self._env_name, self._seeds = env, env_name, seeds
        self._policy, self._behavior, self._length = policy, behavior, length
        self._max_replay_s, self._lenders = max_replay_s, lenders
        self._recorded: Any = None  # columns `obs` and `actions` of the last fragment, which the next one continues
        self._taken: Any = None
        self._observations: Any = None
        self._just_ended = np.zeros(env.num_envs, np.bool_)
        self._starts = np.ones(env.num_envs, np.bool_)
        self._sums = EpisodeSums(env.num_envs, env.columns)
        self._actions = ActionLog()
        self._filled, self._shown = np.ones((length, env.num_envs), np.bool_), np.ones(env.num_envs, np.bool_)

    def begin(self, seeds: Sequence[int]) -> None:
        """Resets all env slots with the given seeds; the current episodes are abandoned.

        Args:
            seeds: Seed of each env slot's episode, [B].

        Raises:
            UsageError: The backend cannot seed single env slots.
            EnvError: The env raised.
        """
        if self._observations is None:
            self._env.reset()
        observations = self._env.begin(range(self._env.num_envs), seeds)
        self._observations = map_tree(lambda leaf: leaf.copy(), observations)
        self._recorded = None
        self._just_ended[:], self._starts[:] = False, True
        self._sums = EpisodeSums(self._env.num_envs, self._env.columns)

    def record(self, noise: Mapping[str, NDArray[np.float32]]) -> Recorded:
        """Records one fragment of T steps in B env slots.

        Args:
            noise: For each policy, its exploration noise for the fragment, [T, B, ...].

        Raises:
            EnvError: The env raised or returned something outside its spaces.
        """
        if self._observations is None:
            self._observations = self._env.reset()
        began, is_array = self._env.places(), self._observations.__class__ is np.ndarray
        act, step, take_rewards = self._behavior.act, self._env.step, self._behavior.take_rewards
        own_noise, length, slots = noise[self._policy], self._length, self._env.num_envs
        observations = self._observations
        lends = self._recorded is not None and self._policy in self._lenders
        lent = self._lenders[self._policy](length, self._recorded, self._taken) if lends else None
        batch = self._behavior.collector.allocate(length, slots, lent)
        if lent is None:
            terminateds, truncateds, valid = np.empty((3, length, slots), np.bool_)
            recorded = map_tree(lambda leaf: np.empty((length + 1, *leaf.shape), leaf.dtype), observations)
            record_row(recorded, 0, observations)
        else:
            terminateds, truncateds, valid = lent["terminateds"], lent["truncateds"], lent["valid"]
            recorded = lent["obs"]
        rewards = np.empty((length, slots))
        columns = {name: np.empty((length, slots)) for name in self._env.columns} if self._env.columns else {}
        read = [(columns[name], latest) for name, latest in self._env.columns.items()] if columns else []
        last_infos: dict[tuple[int, int], dict[str, Any]] = {}
        begins, starts, finals = self._starts, self._starts, self._just_ended
        now, env_step_s, inference_s = time.perf_counter, 0.0, 0.0
        asked = now()
        for t in range(length):
            # `act` fills row t of the batch: actions, network outputs (`LogProbsAndValues`) and recurrent states.
            actions = act(observations, own_noise[t], batch, t, starts)
            acted = now()
            observations, rewards[t], terminateds[t], truncateds[t], infos = step(actions)
            if is_array:
                recorded[t + 1] = observations
            else:
                record_row(recorded, t + 1, observations)
            take_rewards(rewards[t])
            for column, latest in read:
                column[t] = latest
            # The row after an end holds the episode's final observation, and the row after that holds the first
            # observation of the next episode.
            starts, finals = finals, terminateds[t] | truncateds[t]
            if infos:
                last_infos.update({(t, slot): info for slot, info in infos.items()})
            inference_s += acted - asked
            asked = now()
            env_step_s += asked - acted
        ends = terminateds | truncateds
        valid[0], valid[1:] = ~self._just_ended, ~ends[:-1]
        if bad := first_bad_row(self._env.observation_space, recorded):
            (t, slot), reason = bad
            place = self._seeds.position_after(slot, began, ~valid[:t])
            raise EnvError(f"{self._env_name}, env {slot + self._seeds.first_slot}, {place}: {reason}")
        self._recorded, self._taken = recorded, batch["actions"]
        self._observations = recorded[-1].copy() if is_array else map_tree(lambda leaf: leaf[-1].copy(), recorded)
        self._starts = starts
        self._just_ended = ends[-1]
        batch.update(obs=recorded, rewards=rewards, terminateds=terminateds, truncateds=truncateds, valid=valid)
        if columns:
            columns = {name: np.where(valid, column, 0.0) for name, column in columns.items()}
            batch.update({name: column.astype(np.float32) for name, column in columns.items()})
        self._behavior.collector.close(batch, starts, self._shown)
        env_steps, counted = int(np.add.reduce(valid, None)), rewards
        if env_steps < valid.size:
            counted, ends = np.where(valid, rewards, 0.0), ends & valid
        if self._actions.append(self._taken if lent is None else self._taken.copy()):  # lent memory is reused
            self._actions.trim(max(place.length for place in self._env.places()))
        return Recorded(
            batches={self._policy: batch},
            filled={self._policy: self._filled},
            episodes=self._sums.add(counted, ends, valid, last_infos, columns=columns),
            env_steps=env_steps,
            began=began,
            begins={self._policy: begins},
            env_step_s=env_step_s,
            inference_s=inference_s,
        )

    def state(self) -> list[dict[str, Any]]:
        """Returns, for each env slot, the data from which its current episode can be recreated.

        The data consist of the episode's number, seed and actions, and its return and length so far. The state is empty
        before the first fragment.
        """
        return [] if self._observations is None else self._slots(self._actions.latest)

    def place(self) -> list[dict[str, Any]]:
        """Returns a short form of `state()`, sent after each fragment: action logs hold only the newest actions."""
        return self._slots(self._actions.tails)

    def _slots(self, actions_of: Callable[[list[int]], Sequence[Any]]) -> list[dict[str, Any]]:
        places = self._env.places()
        actions = actions_of([place.length for place in places])
        return [
            {
                "episode": place.episode,
                "seed": place.seed,
                "length": place.length,
                "hash": observation_hash(map_tree(lambda leaf, slot=slot: leaf[slot], self._observations)),
                **self._sums.of(slot),
                "just_ended": bool(self._just_ended[slot]),
                "starts": bool(self._starts[slot]),
                "actions": actions[slot],
            }
            for slot, place in enumerate(places)
        ]

    def load_state(self, slots: list[dict[str, Any]]) -> dict[str, NDArray[np.bool_]]:
        """Restores the env slots from the result of `state()`, by repeating the actions of their current episodes.

        Args:
            slots: State of each env slot.

        Returns:
            For each policy, a mask [B] of env slots that could not be restored exactly and began a new episode instead.

        Raises:
            ValueError: The state is malformed, or has a different number of env slots.
        """
        if not slots:
            return {self._policy: np.zeros(self._env.num_envs, np.bool_)}
        if len(slots) != self._env.num_envs:
            raise ValueError(f"the run has {self._env.num_envs} env slots, but {len(slots)} were saved")
        actions = [np.asarray(slot["actions"]) for slot in slots]
        env_actions = [self._behavior.action_space.to_env(own) for own in actions]
        for taken, own in zip(actions, env_actions, strict=True):
            if reason := action_mismatch(self._env.action_space, own, len(taken)):
                raise ValueError(reason)
        places = [EpisodePosition(*(as_count(slot[key]) for key in ("episode", "seed", "length"))) for slot in slots]
        for place, own in zip(places, slots, strict=True):
            place.episode_return = own["episode_return"]
        observations, exact = self._env.restore(places, env_actions, [own["hash"] for own in slots], self._max_replay_s)
        self._recorded = None
        self._observations = map_tree(lambda leaf: leaf.copy(), observations)
        kept = np.array(exact)
        self._sums.load(slots, kept)
        self._just_ended = np.array([slot["just_ended"] for slot in slots], np.bool_) & kept
        self._starts = np.array([slot["starts"] for slot in slots], np.bool_) | ~kept
        self._actions.load(actions)
        return {self._policy: ~kept}

    def close(self) -> None:
        """Closes the vector env."""
        self._env.close()


def lockstep_recorder(config: WorkerConfig, lessons: Lessons | None) -> tuple[LockstepRecorder, Watched]:
    """Creates a worker's single-agent vector env, its recorder, and a watchdog for endless episodes.

    Args:
        config: Settings of the worker; one policy acts in all env slots.
        lessons: Env keyword arguments that a curriculum sets; None without a curriculum.
    """
    seeds, name = config.seeds, config.env_name
    ((policy, behavior),) = config.behaviors.items()
    env = make_vector_env(config.env, config.num_envs, seeds, first_episodes=config.first_episodes, lessons=lessons)
    lenders = {} if config.records or config.hooks else config.lenders  # records and hooks keep the rows they receive
    length, limit_s = config.fragment_length, config.env.max_replay_s
    recorder = LockstepRecorder(
        env, policy, behavior, seeds=seeds, env_name=name, length=length, max_replay_s=limit_s, lenders=lenders
    )
    return recorder, Watched(name, env.places)
