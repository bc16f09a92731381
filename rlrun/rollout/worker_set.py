"""The rollout workers of a trial: one in its own process, or several in Ray actors."""

from __future__ import annotations

import dataclasses
import math
import os
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rlrun.actors.private_ray import start_unless_running
from rlrun.actors.supervised_actors import Call, SupervisedActors
from rlrun.errors import CheckpointError
from rlrun.functional.moments import Moments
from rlrun.rollout.phases import FragmentTimes
from rlrun.rollout.rollout import Episode, Rollout
from rlrun.rollout.sampler import Postprocessing, Sampler, SamplerConfig, SamplesFragments

if TYPE_CHECKING:
    from rlrun.policy.weights import Weights
    from rlrun.rollout.rollout_worker import WorkerConfig

WORKER = "rlrun.rollout.rollout_worker:RolloutWorker"
"""What makes a rollout worker from its config."""


@dataclass(frozen=True)
class MeasuredFragment:
    """A fragment that told what its time went into.

    Attributes:
        worker: Who made it.
        env_steps: Its env steps.
        times: What the worker measured.
        received: When it was counted here, on the clock of `time.perf_counter`.
    """

    worker: int
    env_steps: int
    times: FragmentTimes
    received: float


class WorkerSet:
    """Samples with one local worker (`num_workers` 0, index 0) or with remote ones (indices 1 to n).

    Making one costs nothing; the workers start when they are first used. Remote ones need Ray: where none runs, as in a
    notebook, a private one is started, and stopped by `close`. With a local worker ray is never imported.

    Attributes:
        indices: The workers' indices.
        env_steps: Env steps of all rollouts that were counted.
        sample_s: Seconds that the workers took for them, added up.
    """

    def __init__(
        self,
        config: WorkerConfig,
        num_workers: int,
        *,
        num_cpus_per_worker: float = 1.0,
        worker_timeout_s: float = 300.0,
        max_worker_restarts: int = 10,
        factory: str = WORKER,
    ) -> None:
        """Takes what the workers are made from.

        Args:
            config: What all workers share; each gets its own index in it.
            num_workers: Remote workers, 0 for the local one.
            num_cpus_per_worker: CPUs that the cluster sets aside for each remote worker.
            worker_timeout_s: Seconds after which a fragment is given up and its remote worker made anew.
            max_worker_restarts: Remote workers made anew before the failure becomes the trial's.
            factory: `module:Name` of what makes a worker from its config.
        """
        self.config = config
        self.num_workers = num_workers
        self.indices: Sequence[int] = tuple(range(1, num_workers + 1)) or (0,)
        self.env_steps = 0
        self.sample_s = 0.0
        self._num_cpus = num_cpus_per_worker
        self._timeout_s = worker_timeout_s
        self._max_restarts = max_worker_restarts
        self._factory = factory
        self._postprocessing: dict[str, Postprocessing] = {}
        self._sampler: Sampler | None = None
        self._actors: SupervisedActors | None = None
        self._owns_ray = False
        self._requests: list[Call] = []
        self._next_fragments: Counter[int] = Counter()
        self._earlier_restarts = 0
        self._episodes: list[Episode] = []
        self._filter_deltas: dict[str, dict[str, Moments]] = {}
        self._measured: list[MeasuredFragment] = []

    @property
    def local(self) -> SamplesFragments | None:
        """The worker in this process, None if they are remote."""
        if self.num_workers:
            return None
        return self._started_sampler().worker

    @property
    def worker_restarts(self) -> int:
        """How many workers were made anew, over all sessions of the trial."""
        return self._earlier_restarts + (self._actors.restarts if self._actors else 0)

    def postprocess(self, policy: str, operators: Postprocessing) -> None:
        """Has a policy's batches pass operators on the workers; to be said before the workers start."""
        if self._sampler or self._actors:
            raise RuntimeError("the workers have started; their operators have to be named before")
        self._postprocessing[policy] = operators

    def start(self) -> None:
        """Starts the workers, if they have not been; remote ones are not waited for."""
        if self.num_workers:
            self._started_actors()
        else:
            self._started_sampler()

    def set_weights(self, weights: Mapping[str, Weights], only: int | None = None) -> None:
        """Gives all workers, or one, new weights by policy; they hold from the next request on.

        The same `weights` object sent several times is stored once.
        """
        if self.num_workers:
            self._started_actors().tell("set_weights", weights, only)
        else:
            self._started_sampler().set_weights(weights)

    def measure_phases(self, measures: bool) -> None:
        """Says whether fragments that are asked for from now on are to tell what their time went into."""
        if self.num_workers:
            self._started_actors().tell("measure_phases", measures)
        else:
            self._started_sampler().measure_phases(measures)

    def request(self, worker: int) -> None:
        """Asks one worker for a fragment; it comes with `arrived`."""
        call = self._started_actors().ask(worker, "sample") if self.num_workers else Call(worker, "sample", ())
        self._requests.append(call)

    def arrived(self) -> list[Rollout]:
        """Returns the fragments that are ready, without waiting for others; the local worker makes one now.

        Raises:
            RlrunError: What a worker raised, as it was.
            TrainingFailed: If more workers died than may be made anew.
        """
        if self.num_workers:
            self._started_actors().attend()
        elif self._requests:
            self._requests[0].answer = self._started_sampler().sample()
            self._requests[0].done = True
        done = [call for call in self._requests if call.done]
        self._requests = [call for call in self._requests if not call.done]
        return [call.answer for call in done]

    def awaited(self) -> tuple[tuple[Any, ...], float]:
        """Returns the Ray references, and the moment, of which one has to come before there is news of a request."""
        return self._started_actors().awaited() if self.num_workers else ((), math.inf)

    def count(self, rollout: Rollout) -> None:
        """Counts a fragment: its steps, episodes and filter statistics."""
        self.env_steps += rollout.env_steps
        self.sample_s += rollout.sample_s
        self._next_fragments[rollout.worker_index] = rollout.fragment + 1
        self._episodes += rollout.episodes
        if rollout.times is not None:
            self._measured.append(
                MeasuredFragment(rollout.worker_index, rollout.env_steps, rollout.times, time.perf_counter())
            )
        for policy, deltas in rollout.filter_deltas.items():
            merged = self._filter_deltas.setdefault(policy, {})
            for name, delta in deltas.items():
                merged[name] = merged[name].merged(delta) if name in merged else delta

    def take_episodes(self) -> list[Episode]:
        """Returns the finished episodes that were counted since the last call."""
        taken, self._episodes = self._episodes, []
        return taken

    def take_measured(self) -> list[MeasuredFragment]:
        """Returns the fragments with times that were counted since the last call."""
        taken, self._measured = self._measured, []
        return taken

    def take_filter_deltas(self, policy: str) -> dict[str, Moments]:
        """Returns what a policy's filters have seen since the last call, by name."""
        return self._filter_deltas.pop(policy, {})

    def state(self) -> dict[str, Any]:
        """Returns where all workers are, and what was counted."""
        return {
            "workers": self._ask_all("state"),
            "next_fragments": [self._next_fragments[index] for index in self.indices],
            "env_steps": self.env_steps,
            "worker_restarts": self.worker_restarts,
            "episodes": [dataclasses.asdict(episode) for episode in self._episodes],
            "filter_deltas": {
                policy: {name: delta.state() for name, delta in deltas.items()}
                for policy, deltas in self._filter_deltas.items()
            },
        }

    def load_state(self, state: Mapping[str, Any]) -> int:
        """Brings all workers back to where they were; requests under way are dropped.

        Returns:
            The number of columns that could not be brought back exactly and began a new episode instead.

        Raises:
            CheckpointError: If the state is of another number of workers.
        """
        states = state["workers"]
        if len(states) != len(self.indices):
            raise CheckpointError(
                f"the checkpoint was saved with {len(states)} rollout workers and cannot be continued with "
                f"{len(self.indices)}"
            )
        self.start()
        self._requests = []
        if self._actors:
            self._earlier_restarts = int(state["worker_restarts"]) - self._actors.restarts
            self._actors.forget()
        self._next_fragments = Counter(dict(zip(self.indices, state["next_fragments"], strict=True)))
        self.env_steps = int(state["env_steps"])
        self._episodes = [Episode(**episode) for episode in state["episodes"]]
        self._filter_deltas = {
            policy: {name: Moments.from_state(delta) for name, delta in deltas.items()}
            for policy, deltas in state["filter_deltas"].items()
        }
        return sum(self._ask_all("load_state", states))

    def close(self) -> None:
        """Ends the workers, and Ray if it was started for them."""
        if self._sampler:
            self._sampler.close()
        if self._actors:
            self._actors.close()
        if self._owns_ray:
            import ray

            ray.shutdown()
        self._sampler, self._actors, self._owns_ray, self._requests = None, None, False, []

    def _ask_all(self, method: str, arguments: Sequence[Any] | None = None) -> list[Any]:
        """Calls a method of every sampler, and returns the answers in the order of the workers."""
        each = [(argument,) for argument in arguments] if arguments is not None else [()] * len(self.indices)
        if self.num_workers:
            actors = self._started_actors()
            return actors.answers(
                [
                    actors.ask(index, method, *own, may_take_long=True)
                    for index, own in zip(self.indices, each, strict=True)
                ]
            )
        return [getattr(self._started_sampler(), method)(*own) for own in each]

    def _sampler_config(self, worker: int) -> SamplerConfig:
        """Returns what a worker is made from; one made anew goes on with the fragment that is due."""
        changes: dict[str, Any] = {"worker_index": worker}
        if self._next_fragments[worker]:
            changes["first_fragment"] = self._next_fragments[worker]
        operators = {policy: chain.for_worker(worker) for policy, chain in self._postprocessing.items()}
        return SamplerConfig(self._factory, dataclasses.replace(self.config, **changes), operators)

    def _started_sampler(self) -> Sampler:
        if self._sampler is None:
            self._sampler = Sampler(self._sampler_config(0))
        return self._sampler

    def _started_actors(self) -> SupervisedActors:
        if self._actors is None:
            needed = math.ceil(self.num_workers * self._num_cpus)
            self._owns_ray = start_unless_running(max(needed, os.cpu_count() or 1))
            self._actors = SupervisedActors(
                "rlrun.rollout.sampler:Sampler",
                self.indices,
                self._sampler_config,
                what="rollout worker",
                num_cpus=self._num_cpus,
                timeout_s=self._timeout_s,
                max_restarts=self._max_restarts,
            )
        return self._actors
