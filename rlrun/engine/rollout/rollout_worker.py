"""Rollout worker: collects fragments of experience from envs with behavior policies.

The worker is a plain class, for the trial's own process or a Ray actor. It imports neither ray nor, for dense networks,
torch.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from rlrun.engine.data.sample_batch import WORLD_STATE
from rlrun.engine.data.tree import map_tree
from rlrun.engine.envs.env_watch import Watched
from rlrun.engine.envs.episode_position import EpisodeSeeds
from rlrun.engine.envs.make import make_vector_env
from rlrun.engine.envs.tasks import Lessons
from rlrun.engine.functional.moments import Moments
from rlrun.engine.functional.saved_numbers import as_count
from rlrun.engine.rollout.fragment_noise import FragmentNoise
from rlrun.engine.rollout.lockstep_recorder import LockstepRecorder
from rlrun.engine.rollout.phases import ENV_STEP, HOOKS, INFERENCE, POSTPROCESS, RECORDING, FragmentTimes, machine_clock
from rlrun.engine.rollout.raw_rows import RawRows, episode_seeds, raw_columns, record_log_probs
from rlrun.engine.rollout.recorder import Recorded, Recorder, place_finals
from rlrun.engine.rollout.rewards import RETURNS, RewardTransform
from rlrun.engine.rollout.rollout import Rollout
from rlrun.engine.rollout.slot_recorder import SlotRecorder
from rlrun.engine.rollout.worker import Orders
from rlrun.engine.rollout.worker_config import WorkerConfig
from rlrun.engine.rollout.worker_hooks import WorkerHooks
from rlrun.engine.worlds.make import make_vector_world

if TYPE_CHECKING:
    from rlrun.engine.worlds.client_worlds import ClientWorlds
    from rlrun.engine.worlds.vector_world import VectorWorld

_NO_RETURNS = Moments.empty(())


class RolloutWorker:
    """Rollout worker: steps envs with behavior policies, by a recorder, and postprocesses the fragments.

    Attributes:
        config: Config of the worker.
        behaviors: Behavior policies by name.
    """

    def __init__(self, config: WorkerConfig) -> None:
        self.config = config
        self.behaviors = config.behaviors
        self._fragment = config.first_fragment
        self._lessons = None if config.env.curriculum is None else Lessons(config.num_envs)
        self._hooks = WorkerHooks(config) if config.hooks else None
        self._needs_rows = self._hooks is not None and self._hooks.needs_rows
        self._recorder, self._watched, self._clients = _recorder_for(
            config, self._lessons, names_agents=self._has_raw_rows
        )
        self._rewards: dict[str, RewardTransform] = {}
        self._noise: dict[str, FragmentNoise] = {}
        for policy, slots in self._recorder.slots.items():
            if config.records:
                record_log_probs(self.behaviors[policy])
            self.behaviors[policy].assign_envs(max(config.worker_index - 1, 0) * slots, config.num_workers * slots)
            self._rewards[policy] = RewardTransform(slots, config.rewards[policy])
            self._noise[policy] = FragmentNoise(
                self.behaviors[policy],
                config.seed,
                config.worker_index,
                config.fragment_length,
                slots,
                policy=policy if len(self.behaviors) > 1 else "",
            )

    @property
    def _has_raw_rows(self) -> bool:
        return self.config.records or self._needs_rows

    def follow(self, orders: Orders) -> None:
        """Loads new weights and filter statistics by policy, and env arguments of a curriculum."""
        for policy, latest in orders.weights.items():
            self.behaviors[policy].load(latest)
            self._rewards[policy].moments = latest.filters.get(RETURNS, _NO_RETURNS)
            if self._clients is not None:
                from rlrun.engine.rollout.client_weights import policy_in_json

                self._clients.publish(policy, latest.version, partial(policy_in_json, self.behaviors[policy], latest))
        if self._lessons is not None and orders.env_kwargs is not None:
            self._lessons.latest = dict(orders.env_kwargs)

    def begin(self, seeds: Sequence[int]) -> None:
        """Resets all slots of a single-agent env with given seeds, for the next fragment.

        Args:
            seeds: Seed of each env slot's episode, [B].

        Raises:
            UsageError: The backend cannot seed single env slots.
            EnvError: The env raised.
        """
        assert isinstance(self._recorder, LockstepRecorder)
        with self._watched:
            self._recorder.begin(seeds)

    def sample(self) -> Rollout:
        """Collects one fragment.

        Raises:
            EnvError: The env raised or returned something outside its spaces.
        """
        began = time.perf_counter()
        noise = {policy: draw(self._fragment) for policy, draw in self._noise.items()}
        drawn = time.perf_counter()
        with self._watched:
            recorded = self._recorder.record(noise)
        raw = {policy: self._raw(policy, recorded) for policy in recorded.batches} if self._has_raw_rows else {}
        ended_recording = time.perf_counter()
        hooks = None if self._hooks is None else self._hooks.take(self._fragment, recorded, raw)
        ended_hooks = ended_recording if hooks is None else time.perf_counter()
        seen = {policy: self._postprocess(policy, recorded) for policy in recorded.batches}
        agents = recorded.agent_episodes
        ended = time.perf_counter()
        seconds = {
            ENV_STEP: recorded.env_step_s,
            INFERENCE: drawn - began + recorded.inference_s,
            RECORDING: ended_recording - drawn - recorded.env_step_s - recorded.inference_s,
            POSTPROCESS: ended - ended_hooks,
        }
        if self._hooks is not None:
            seconds[HOOKS] = ended_hooks - ended_recording
        rollout = Rollout(
            worker_index=self.config.worker_index,
            fragment=self._fragment,
            batches=dict(recorded.batches),
            episodes=recorded.episodes,
            agent_steps={policy: int(np.count_nonzero(recorded.batches[policy]["valid"])) for policy in agents},
            agent_episodes=dict(agents),
            missing_finals=recorded.missing_finals,
            dropped_rewards=recorded.dropped_rewards,
            filter_deltas=seen,
            env_steps=recorded.env_steps,
            weights_versions={policy: behavior.weights_version for policy, behavior in self.behaviors.items()},
            sample_s=ended - began,
            raw=raw if self.config.records else {},
            hooks=hooks,
            times=FragmentTimes(machine_clock(), began, ended, seconds),
        )
        self._fragment += 1
        return rollout

    def _raw(self, policy: str, recorded: Recorded) -> RawRows:
        """Returns the raw rows of a recorded batch, before it is postprocessed."""
        config, batch = self.config, recorded.batches[policy]
        columns = raw_columns(self.behaviors[policy], batch, config.env.columns, has_log_probs=config.records)
        if policy in recorded.agent_rows:
            return RawRows(columns, recorded.begins[policy], recorded.agent_rows[policy], recorded.closes[policy])
        seeds = EpisodeSeeds(config.seed, config.worker_index)
        columns["seed"] = episode_seeds(seeds, recorded.began, batch["valid"])
        return RawRows(columns, recorded.begins[policy])

    def _postprocess(self, policy: str, recorded: Recorded) -> dict[str, Moments]:
        """Postprocesses a recorded batch in place (reward transform, policy columns); returns new filter statistics.

        All steps of the fragment are processed at once, which is cheaper than in each step.
        """
        behavior, batch = self.behaviors[policy], recorded.batches[policy]
        seen = behavior.observation_moments(map_tree(lambda leaf: leaf[:-1], batch["obs"]), recorded.filled[policy])
        ends = batch["terminateds"] | batch["truncateds"]
        batch["rewards"], returned = self._rewards[policy](batch["rewards"], ends, batch["valid"])
        behavior.postprocess(batch)
        if policy in recorded.closing:
            place_finals(batch, *recorded.closing[policy])
        return {**seen, **returned}

    def state(self) -> dict[str, Any]:
        """Returns the worker's state: next fragment number, env slots, and recurrent state of the policies."""
        return self._state(self._recorder.state())

    def place(self) -> dict[str, Any]:
        """Returns the worker's `state()`, with only the latest fragment's part (`LogTail`) of the action log."""
        return self._state(self._recorder.place())

    def _state(self, slots: Any) -> dict[str, Any]:
        return {
            "fragment": self._fragment,
            "rewards": {policy: rewards.state() for policy, rewards in self._rewards.items()},
            "behaviors": {policy: behavior.state() for policy, behavior in self.behaviors.items()},
            "slots": slots,
            **({} if self._lessons is None else {"lessons": self._lessons.state()}),
            **({} if self._hooks is None else {"hooks": self._hooks.state()}),
        }

    def load_state(self, state: Mapping[str, Any]) -> int:
        """Restores the worker from `state()` by replaying the current episodes.

        Args:
            state: State from `state`.

        Returns:
            The number of env slots that could not be restored exactly and began a new episode instead.
        """
        self._fragment = as_count(state["fragment"])
        for policy, behavior in self.behaviors.items():
            self._rewards[policy].load_state(state["rewards"][policy])
            behavior.load_state(state["behaviors"][policy])
        if self._lessons is not None:
            self._lessons.load_state(state["lessons"])
        if self._hooks is not None and "hooks" in state:
            self._hooks.load_state(state["hooks"])
        with self._watched:
            began_anew = self._recorder.load_state(state["slots"])
        for policy, slots in began_anew.items():
            self._rewards[policy].reset_slots(slots)
        return sum(int(slots.sum()) for slots in began_anew.values())

    def close(self) -> None:
        """Closes the envs."""
        self._recorder.close()


def _recorder_for(
    config: WorkerConfig, lessons: Lessons | None, *, names_agents: bool
) -> tuple[Recorder, Watched, ClientWorlds | None]:
    """Creates the recorder for single-agent envs or worlds, the watchdog over env steps, and the clients' worlds."""
    seeds = EpisodeSeeds(config.seed, config.worker_index)
    firsts = [config.first_fragment * config.fragment_length] * config.num_envs
    name, length = f"env {config.env.id}: worker {config.worker_index}", config.fragment_length
    if config.env.has_many_agents:
        assert config.mapping is not None
        worlds = make_vector_world(
            config.env,
            config.num_envs,
            seeds,
            config.mapping,
            config.slots,
            firsts,
            lessons=lessons,
            with_states=any(WORLD_STATE in behavior.world_columns for behavior in config.behaviors.values()),
        )
        of_worlds = SlotRecorder(
            worlds,
            config.behaviors,
            seeds=seeds,
            name=name,
            length=length,
            max_replay_s=config.env.max_replay_s,
            names_agents=names_agents,
            marks_logged=config.env.external is not None and config.env.external.logged_actions == "mask",
        )
        return of_worlds, Watched(name, worlds.places), _clients_of(config, worlds)
    ((policy, behavior),) = config.behaviors.items()  # in lockstep one policy acts in all env slots
    env = make_vector_env(config.env, config.num_envs, seeds, first_episodes=firsts, lessons=lessons)
    in_lockstep = LockstepRecorder(
        env, policy, behavior, seeds=seeds, env_name=name, length=length, max_replay_s=config.env.max_replay_s
    )
    return in_lockstep, Watched(name, env.places), None


def _clients_of(config: WorkerConfig, worlds: VectorWorld) -> ClientWorlds | None:
    """The worlds as those of clients; None in other envs, which import no server."""
    if config.env.external is None:
        return None
    from rlrun.engine.worlds.client_worlds import ClientWorlds

    return worlds if isinstance(worlds, ClientWorlds) else None
