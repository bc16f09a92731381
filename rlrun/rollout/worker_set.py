"""The rollout workers of a trial: one in its own process, or several in Ray actors."""

from __future__ import annotations

import dataclasses
import math
import os
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rlrun.actors.private_ray import start_unless_running
from rlrun.actors.supervised_actors import Call, SupervisedActors
from rlrun.errors import CheckpointError, TrainingFailed
from rlrun.rollout.aggregator import ANSWERS_WITHIN_S, AggregatorConfig, JoinedRollouts
from rlrun.rollout.counts import MeasuredFragment, RolloutCounts
from rlrun.rollout.rollout import Rollout
from rlrun.rollout.sampler import Postprocessing, Sampler, SamplerConfig, SamplesFragments

__all__ = ["MeasuredFragment", "WorkerSet"]

if TYPE_CHECKING:
    from rlrun.policy.weights import Weights
    from rlrun.rollout.rollout_worker import WorkerConfig

WORKER = "rlrun.rollout.rollout_worker:RolloutWorker"
"""What makes a rollout worker from its config."""

SAMPLER = "rlrun.rollout.sampler:Sampler"
"""What makes a sampler, which has such a worker, from its config."""

AGGREGATOR = "rlrun.rollout.aggregator:Aggregator"
"""What makes an aggregator from its config."""


class WorkerSet(RolloutCounts):
    """Samples with one local worker (`num_workers` 0, index 0) or with remote ones (indices 1 to n).

    Making one costs nothing; the workers start when they are first used. Remote ones need Ray: where none runs, as in a
    notebook, a private one is started, and stopped by `close`. With a local worker ray is never imported.

    Remote workers may be gathered behind aggregators, actors that each have a share of them: they ask and supervise
    those workers, and deliver whole batches. Who is asked, sent weights and waited for is then an aggregator.

    Attributes:
        indices: The workers' indices.
        deliverers: Indices of who is asked for fragments: the workers, or the aggregators that they are gathered
            behind, from 1.
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
        super().__init__()
        self.config = config
        self.num_workers = num_workers
        self.indices: Sequence[int] = tuple(range(1, num_workers + 1)) or (0,)
        self.deliverers: Sequence[int] = self.indices
        self._num_cpus = num_cpus_per_worker
        self._timeout_s = worker_timeout_s
        self._max_restarts = max_worker_restarts
        self._factory = factory
        self._postprocessing: dict[str, Postprocessing] = {}
        self._sampler: Sampler | None = None
        self._actors: SupervisedActors | None = None
        self._owns_ray = False
        self._gathering: tuple[int, int, str] | None = None
        self._local_requests = 0
        self._inbox: deque[Call] = deque()  # answered and not taken yet
        self._next_fragments: Counter[int] = Counter()
        self._earlier_restarts = 0
        self._restarts_behind = 0

    @property
    def local(self) -> SamplesFragments | None:
        """The worker in this process, None if they are remote."""
        if self.num_workers:
            return None
        return self._started_sampler().worker

    @property
    def worker_restarts(self) -> int:
        """How many workers and aggregators were made anew, over all sessions of the trial."""
        return self._earlier_restarts + self._restarts_now

    @property
    def _restarts_now(self) -> int:
        return self._restarts_behind + (self._actors.restarts if self._actors else 0)

    def postprocess(self, policy: str, operators: Postprocessing) -> None:
        """Has a policy's batches pass operators on the workers; to be said before the workers start."""
        if self._sampler or self._actors:
            raise RuntimeError("the workers have started; their operators have to be named before")
        self._postprocessing[policy] = operators

    def gather(self, aggregators: int, batch_size: int, in_flight: int, policy: str) -> None:
        """Gathers the remote workers behind aggregators, in shares of neighbours; to be said before they start.

        From then on batches come with `joined`.

        Args:
            aggregators: How many, at most one for each worker.
            batch_size: Steps [T * B] that fill a batch.
            in_flight: Requests that each worker has at a time.
            policy: Whose batches.
        """
        if self._actors:
            raise RuntimeError("the workers have started; they have to be gathered before")
        if not 1 <= aggregators <= self.num_workers:
            raise ValueError(f"{self.num_workers} remote workers cannot be gathered behind {aggregators} aggregators")
        self.deliverers = tuple(range(1, aggregators + 1))
        self._gathering = batch_size, in_flight, policy

    def start(self) -> None:
        """Starts the workers, if they have not been; remote ones are not waited for."""
        if self.num_workers:
            self._started_actors()
        else:
            self._started_sampler()

    def set_weights(self, weights: Mapping[str, Weights], only: int | None = None) -> None:
        """Gives all workers, or one, new weights by policy; they hold from the next request on.

        An aggregator passes them on to all of its workers, between two of its batches.

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

    def request(self, deliverer: int) -> None:
        """Asks one deliverer for a fragment, which comes with `arrived`, or for a batch, which comes with `joined`."""
        if self.num_workers:
            self._started_actors().ask(deliverer, "sample").inbox = self._inbox
        else:
            self._local_requests += 1

    def arrived(self) -> list[Rollout]:
        """Returns the fragments that are ready, without waiting for others; the local worker makes one now.

        Raises:
            RlrunError: What a worker raised, as it was.
            TrainingFailed: If more workers died than may be made anew.
        """
        if self.num_workers:
            arrived = self._answers()
        else:
            arrived = [self._started_sampler().sample()] if self._local_requests else []
            self._local_requests -= len(arrived)
        self._note(arrived)
        return arrived

    def joined(self) -> list[JoinedRollouts]:
        """Returns the batches of aggregators that are ready, without waiting for others.

        Raises:
            RlrunError: What a worker raised, as it was.
            TrainingFailed: If more workers or aggregators died than may be made anew.
        """
        joined: list[JoinedRollouts] = self._answers()
        for batch in joined:
            self._note(batch.fragments)
            self._restarts_behind += batch.worker_restarts
        if self._restarts_now > self._max_restarts:
            raise TrainingFailed(
                f"{self._restarts_now} rollout workers and aggregators had to be made anew, and max_worker_restarts "
                f"allows {self._max_restarts}"
            )
        return joined

    def _answers(self) -> list[Any]:
        self._started_actors().attend()
        answers = [call.answer for call in self._inbox]
        self._inbox.clear()
        return answers

    def _note(self, rollouts: Sequence[Rollout]) -> None:
        for rollout in rollouts:
            self._next_fragments[rollout.worker_index] = rollout.fragment + 1

    def wait(self, until: float) -> None:
        """Waits until there may be news of a request, or for a moment on the clock of `time.monotonic`."""
        self._started_actors().wait(until)

    def awaited(self) -> tuple[tuple[Any, ...], float]:
        """Returns the Ray references, and the moment, of which one has to come before there is news of a request."""
        return self._started_actors().awaited() if self.num_workers else ((), math.inf)

    def state(self) -> dict[str, Any]:
        """Returns where all workers are, and what was counted."""
        return {
            "workers": self.worker_states(),
            "next_fragments": [self._next_fragments[index] for index in self.indices],
            "worker_restarts": self.worker_restarts,
            **self.counts(),
        }

    def worker_states(self) -> list[Any]:
        """Returns where all workers are, in their order, however they are gathered."""
        answers = self._ask_all("state", [() for _ in self.deliverers])
        return [state for states in answers for state in states] if self._gathering else answers

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
        self._earlier_restarts = int(state["worker_restarts"]) - self._restarts_now
        self.load_counts(state)
        return self.load_worker_states(states, state["next_fragments"])

    def load_worker_states(self, states: Sequence[Any], next_fragments: Sequence[int]) -> int:
        """Brings all workers back to where they were; requests under way are dropped.

        Args:
            states: What `worker_states` returned.
            next_fragments: The numbers with which the workers' undelivered fragments begin.

        Returns:
            The number of columns that could not be brought back exactly.
        """
        self.start()
        self._local_requests = 0
        self._inbox.clear()
        if self._actors:
            self._actors.forget()
        self._next_fragments = Counter(dict(zip(self.indices, next_fragments, strict=True)))
        arguments: list[tuple[Any, ...]] = [(state,) for state in states]
        if self._gathering:
            shares = [self._share(aggregator) for aggregator in self.deliverers]
            arguments = [(states[share], next_fragments[share]) for share in shares]
        return sum(self._ask_all("load_state", arguments))

    def close(self) -> None:
        """Ends the workers, and Ray if it was started for them."""
        if self._sampler:
            self._sampler.close()
        if self._actors:
            self._actors.close()
        for operators in self._postprocessing.values():
            operators.close()
        if self._owns_ray:
            import ray

            ray.shutdown()
        self._sampler, self._actors, self._owns_ray, self._local_requests = None, None, False, 0
        self._inbox.clear()

    def _ask_all(self, method: str, arguments: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Calls a method of every deliverer with its own arguments, and returns the answers in their order."""
        if not self.num_workers:
            return [getattr(self._started_sampler(), method)(*own) for own in arguments]
        actors = self._started_actors()
        return actors.answers(
            [
                actors.ask(index, method, *own, may_take_long=True)
                for index, own in zip(self.deliverers, arguments, strict=True)
            ]
        )

    def _sampler_config(self, worker: int) -> SamplerConfig:
        """Returns what a worker is made from; one made anew goes on with the fragment that is due."""
        self._note([call.answer for call in self._inbox if isinstance(call.answer, Rollout)])
        changes: dict[str, Any] = {"worker_index": worker}
        if self._next_fragments[worker]:
            changes["first_fragment"] = self._next_fragments[worker]
        operators = {policy: chain.for_worker(worker) for policy, chain in self._postprocessing.items()}
        return SamplerConfig(self._factory, dataclasses.replace(self.config, **changes), operators)

    def aggregator_config(self, aggregator: int) -> AggregatorConfig:
        """Returns what an aggregator is made from: its share of the workers, not started, and what to do with them."""
        for call in self._inbox:
            if isinstance(call.answer, JoinedRollouts):
                self._note(call.answer.fragments)
        assert self._gathering is not None
        return AggregatorConfig(
            aggregator,
            self._part(self.indices[self._share(aggregator)]),
            *self._gathering,
            answers_within_s=min(ANSWERS_WITHIN_S, self._timeout_s / 2),
        )

    def _share(self, aggregator: int) -> slice:
        """Returns which of the workers are an aggregator's."""
        number, of = len(self.indices), len(self.deliverers)
        return slice((aggregator - 1) * number // of, aggregator * number // of)

    def _part(self, indices: Sequence[int]) -> WorkerSet:
        """Returns a set of some of the workers, not started, which can be sent to another process."""
        part = WorkerSet(
            self.config,
            len(indices),
            num_cpus_per_worker=self._num_cpus,
            worker_timeout_s=self._timeout_s,
            max_worker_restarts=self._max_restarts,
            factory=self._factory,
        )
        part.indices = part.deliverers = indices
        part._next_fragments = Counter({index: self._next_fragments[index] for index in indices})
        part._postprocessing = self._postprocessing
        return part

    def _started_sampler(self) -> Sampler:
        if self._sampler is None:
            self._sampler = Sampler(self._sampler_config(0))
        return self._sampler

    def _started_actors(self) -> SupervisedActors:
        if self._actors is None:
            needed = math.ceil(self.num_workers * self._num_cpus)
            self._owns_ray = start_unless_running(max(needed, os.cpu_count() or 1))
            gathered = self._gathering is not None
            self._actors = SupervisedActors(
                AGGREGATOR if gathered else SAMPLER,
                self.deliverers,
                self.aggregator_config if gathered else self._sampler_config,
                what="aggregator" if gathered else "rollout worker",
                num_cpus=0.0 if gathered else self._num_cpus,  # it mostly waits; its workers have CPUs of their own
                timeout_s=self._timeout_s,
                max_restarts=self._max_restarts,
            )
        return self._actors
