"""Rollout worker: collects fragments of experience by stepping envs with policies.

The worker is a plain class that runs in the trial's process or in a Ray actor. It imports neither ray nor, for dense
networks, torch.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rlrun.engine.data.sample_batch import EPISODE
from rlrun.engine.envs.episode_position import shared_numbers
from rlrun.engine.functional.moments import Moments
from rlrun.engine.functional.saved_numbers import as_count
from rlrun.engine.functional.seeding import generator
from rlrun.engine.policy.exploration.exploration import NoiseSource
from rlrun.engine.rollout.phases import ENV_STEP, HOOKS, INFERENCE, POSTPROCESS, RECORDING, FragmentTimes, machine_clock
from rlrun.engine.rollout.recorder import Recorded, Recorder, SeededRecorder, place_finals
from rlrun.engine.rollout.rewards import RETURNS, RewardTransform
from rlrun.engine.rollout.rollout import Rollout
from rlrun.engine.settings.registry import load_internal

if TYPE_CHECKING:
    from rlrun.engine.envs.env_watch import Watched
    from rlrun.engine.envs.tasks import Lessons
    from rlrun.engine.rollout.raw_rows import RawRows
    from rlrun.engine.rollout.worker import Orders
    from rlrun.engine.rollout.worker_config import WorkerConfig
    from rlrun.engine.rollout.worker_hooks import WorkerHooks
    from rlrun.engine.worlds.client_worlds import ClientWorlds


Floats = NDArray[np.float32]

DRAWN_TOGETHER = 32
"""Number of steps whose noise is drawn at once if fragments are short; one generator per fragment would be too slow."""

PARTS = {
    "recorder of one agent": "rlrun.engine.rollout.lockstep_recorder:lockstep_recorder",
    "recorder of many agents": "rlrun.engine.rollout.slot_recorder:slot_recorder",
    "lessons": "rlrun.engine.envs.tasks:Lessons",
    "hooks": "rlrun.engine.rollout.worker_hooks:WorkerHooks",
    "raw rows": "rlrun.engine.rollout.raw_rows:raw_rows",
    "log-probabilities": "rlrun.engine.rollout.raw_rows:record_log_probs",
    "policy for clients": "rlrun.engine.rollout.client_weights:policy_in_json",
}
"""Import paths of a worker's optional parts, which are imported only if its config needs them."""

_NO_RETURNS = Moments.empty(())


class RolloutWorker:
    """Rollout worker that steps envs with policies, and returns postprocessed fragments of experience.

    Attributes:
        config: Settings of the worker.
        behaviors: Behavior policies by name.
    """

    def __init__(self, config: WorkerConfig) -> None:
        self.config = config
        self.behaviors = config.behaviors
        self._fragment = config.first_fragment
        self._lessons: Lessons | None = None
        if config.env.curriculum is not None:
            self._lessons = load_internal(PARTS["lessons"])(config.num_envs)
        self._hooks: WorkerHooks | None = load_internal(PARTS["hooks"])(config) if config.hooks else None
        needs_rows = config.records or (self._hooks is not None and self._hooks.needs_rows)
        self._raw_rows: Callable[..., RawRows] | None = load_internal(PARTS["raw rows"]) if needs_rows else None
        self._recorder: Recorder
        self._watched: Watched
        self._clients: ClientWorlds | None = None
        if config.env.has_many_agents:
            make_recorder = load_internal(PARTS["recorder of many agents"])
            self._recorder, self._watched, self._clients = make_recorder(config, self._lessons, names_agents=needs_rows)
        else:
            self._recorder, self._watched = load_internal(PARTS["recorder of one agent"])(config, self._lessons)
        self._rewards: dict[str, RewardTransform] = {}
        self._noise: dict[str, FragmentNoise] = {}
        for policy, slots in self._recorder.slots.items():
            behavior = self.behaviors[policy]
            if config.records:
                load_internal(PARTS["log-probabilities"])(behavior)
            first = (max(config.worker_index - 1, 0) * config.groups + config.group) * slots
            behavior.noise_source.assign_envs(first, config.num_workers * config.groups * slots)
            self._rewards[policy] = RewardTransform(slots, config.rewards[policy])
            self._noise[policy] = FragmentNoise(
                behavior.noise_source,
                config.seed,
                config.worker_index,
                config.fragment_length,
                slots,
                policy=policy if len(self.behaviors) > 1 else "",
                groups=config.groups,
                group=config.group,
            )

    def follow(self, orders: Orders) -> None:
        """Loads each policy's new weights and statistics, and the env keyword arguments that a curriculum has set."""
        for policy in orders.weights:
            latest = orders.weights[policy]
            self.behaviors[policy].load(latest)
            self._rewards[policy].moments = latest.filters.get(RETURNS, _NO_RETURNS) if latest.filters else _NO_RETURNS
            if self._clients is not None:
                in_json = load_internal(PARTS["policy for clients"])
                self._clients.publish(policy, latest.version, partial(in_json, self.behaviors[policy], latest))
        if self._lessons is not None and orders.env_kwargs is not None:
            self._lessons.latest = dict(orders.env_kwargs)

    @property
    def next_fragment(self) -> int:
        """Index of the next fragment, from 0."""
        return self._fragment

    def begin(self, seeds: Sequence[int]) -> None:
        """Resets all slots of a single-agent env with given seeds; the next fragment starts with these episodes.

        Args:
            seeds: Seed of each env slot's episode, [B].

        Raises:
            UsageError: The backend cannot seed single env slots.
            EnvError: The env raised.
        """
        assert isinstance(self._recorder, SeededRecorder)
        with self._watched:
            self._recorder.begin(seeds)

    def sample(self) -> Rollout:
        """Collects and postprocesses one fragment.

        Raises:
            EnvError: The env raised or returned something outside its spaces.
        """
        began, noise = time.perf_counter(), {}
        for policy in self._noise:
            noise[policy] = self._noise[policy](self._fragment)
        with self._watched:
            recorded = self._recorder.record(noise)
        if self.config.episodes_per_seed > 1:
            for batch in recorded.batches.values():
                batch[EPISODE] = shared_numbers(recorded.began, batch["valid"])
        raw: dict[str, RawRows] = {}
        if self._raw_rows is not None:
            for policy in recorded.batches:
                raw[policy] = self._raw_rows(self.config, self.behaviors[policy], policy, recorded)
        ended_recording = time.perf_counter()
        hooks = None if self._hooks is None else self._hooks.take(self._fragment, recorded, raw)
        ended_hooks = ended_recording if hooks is None else time.perf_counter()
        seen, versions, agent_steps = {}, {}, {}
        for policy in recorded.batches:
            seen[policy] = self._postprocess(policy, recorded)
        for policy in self.behaviors:
            versions[policy] = self.behaviors[policy].weights_version
        for policy in recorded.agent_episodes:
            agent_steps[policy] = int(np.count_nonzero(recorded.batches[policy]["valid"]))
        ended = time.perf_counter()
        seconds = {
            ENV_STEP: recorded.env_step_s,
            INFERENCE: recorded.inference_s,
            RECORDING: ended_recording - began - recorded.env_step_s - recorded.inference_s,
            POSTPROCESS: ended - ended_hooks,
        }
        if self._hooks is not None:
            seconds[HOOKS] = ended_hooks - ended_recording
        rollout = Rollout(
            worker_index=self.config.worker_index,
            fragment=self._fragment,
            batches=dict(recorded.batches),
            episodes=recorded.episodes,
            agent_steps=agent_steps,
            agent_episodes=dict(recorded.agent_episodes),
            missing_finals=recorded.missing_finals,
            dropped_rewards=recorded.dropped_rewards,
            filter_deltas=seen,
            env_steps=recorded.env_steps,
            weights_versions=versions,
            sample_s=ended - began,
            raw=raw if self.config.records else {},
            hooks=hooks,
            times=FragmentTimes(machine_clock(), began, ended, seconds),
        )
        self._fragment += 1
        return rollout

    def _postprocess(self, policy: str, recorded: Recorded) -> dict[str, Moments]:
        """Postprocesses a recorded batch in place (reward transform, policy columns); returns new filter statistics.

        All steps of the fragment are processed at once, which is cheaper than processing each step separately.
        """
        collector, batch, transform = self.behaviors[policy].collector, recorded.batches[policy], self._rewards[policy]
        seen = collector.moments(batch["obs"], recorded.filled[policy])
        ends = batch["terminateds"] | batch["truncateds"]
        batch["rewards"], returned = transform.measured(batch["rewards"], ends, batch["valid"])
        if self.config.groups == 1:  # with more groups, rewards are normalized after fragments are joined
            batch["rewards"] = transform.normalized(batch["rewards"], returned)
        collector.postprocess(batch)
        if policy in recorded.closing:
            place_finals(batch, *recorded.closing[policy])
        return {**seen, **returned}

    def normalized(self, policy: str, rewards: NDArray[np.float64], delta: Mapping[str, Moments]) -> Floats:
        """Divides a policy's rewards [T, B] by the standard deviation of returns; see `RewardTransform.normalized`."""
        return self._rewards[policy].normalized(rewards, delta)

    def state(self) -> dict[str, Any]:
        """Returns the worker's state for a checkpoint: fragment number, running episodes, and policies' memories."""
        return self._state(self._recorder.state())

    def place(self) -> dict[str, Any]:
        """Returns a short form of `state()`, sent after each fragment: action logs hold only the newest actions."""
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
        """Restores the worker from the result of `state()`, by repeating the actions of the current episodes.

        Args:
            state: Result of `state()`.

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
            restarted = self._recorder.load_state(state["slots"])
        for policy, slots in restarted.items():
            self._rewards[policy].reset_slots(slots)
        return sum(int(slots.sum()) for slots in restarted.values())

    def close(self) -> None:
        """Closes the worker's envs."""
        self._recorder.close()


class FragmentNoise:
    """Source of a policy's exploration noise, which depends only on the seed and the fragment's index.

    State-dependent noise (gSDE) may be constant over several steps, even across fragments. If so, a resumed run draws
    the noise of the preceding fragment again.

    Args:
        source: Exploration that samples the noise.
        seed: Root seed of the trial.
        worker_index: Index of the worker.
        length: T, steps in a fragment.
        slots: B, env slots.
        policy: Name of the policy, so that several policies draw different noise; "" for a single policy.
        groups: Number of groups of B env slots, whose noise is drawn together; only one group's noise is returned.
        group: Index of this group.
    """

    def __init__(
        self,
        source: NoiseSource,
        seed: int,
        worker_index: int,
        length: int,
        slots: int,
        policy: str = "",
        groups: int = 1,
        group: int = 0,
    ) -> None:
        self._source = source
        self._purpose = f"noise of {policy}" if policy else "noise"
        self._seed = seed
        self._worker_index = worker_index
        self._length = length
        self._slots = slots * groups
        self._own = slice(group * slots, (group + 1) * slots)
        self._block_length = length * max(DRAWN_TOGETHER // (length * self._slots), 1)
        self._drawn: tuple[int, Floats] | None = None
        self._held: tuple[int, Floats] | None = None
        self._every = source.network_noise_every

    def __call__(self, fragment: int) -> Floats:
        """Returns the noise [T, B, ...] of a fragment, given its number."""
        block, first = divmod(fragment * self._length, self._block_length)
        if self._drawn is None or self._drawn[0] != block:
            noise = self._draw(block)
            if self._every is not None and self._block_length % self._every:
                self._hold(block, noise, self._every)
            self._drawn = block, noise
        return self._drawn[1][first : first + self._length, self._own]

    def _draw(self, block: int) -> Floats:
        """Samples the noise of a block of consecutive fragments, with gSDE noise held over `every` steps."""
        draws = generator(self._seed, self._purpose, self._worker_index, block)
        return self._source.noise(draws, self._block_length, self._slots)

    def _hold(self, block: int, noise: Floats, every: int) -> None:
        """Repeats gSDE noise in place, so that it changes only at multiples of `every` steps over all fragments.

        Samples are numbered from the first fragment: the i-th sample that starts in a block is the block's i-th draw.
        """
        own = noise[..., : self._source.network_noise]
        first = block * self._block_length
        begins = -(-first // every)
        numbers = np.arange(first, first + self._block_length) // every
        moved = own[np.maximum(numbers - begins, 0) * every]
        if numbers[0] < begins:
            moved[numbers < begins] = self._noise_in_effect(int(numbers[0]), every)
        own[:] = moved
        self._held = int(numbers[-1]), moved[-1]

    def _noise_in_effect(self, number: int, every: int) -> Floats:
        """Returns the gSDE noise [B, ...] still in effect from an earlier block of fragments."""
        if self._held is None or self._held[0] != number:
            block = number * every // self._block_length
            place = number - -(-block * self._block_length // every)
            return self._draw(block)[place * every, :, : self._source.network_noise]
        return self._held[1]
