"""The rollout workers of a trial: one in its own process, several in Ray actors, or those behind aggregators."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from rlrun.actors import private_ray
from rlrun.envs.step_marks import marks_place
from rlrun.errors import CheckpointError
from rlrun.rollout.aggregated_workers import AggregatedWorkers
from rlrun.rollout.aggregator import Aggregation
from rlrun.rollout.counts import RolloutCounts
from rlrun.rollout.local_workers import LocalWorkers
from rlrun.rollout.remote_workers import RemoteWorkers
from rlrun.rollout.rollout import JoinedRollouts, Rollout
from rlrun.rollout.sampler import Postprocessing
from rlrun.rollout.worker import ROLLOUT_WORKER
from rlrun.rollout.worker_config import LOCAL_INDEX

if TYPE_CHECKING:
    from rlrun.rollout.worker import Orders


class StartedWorkers(Protocol):
    """Workers as the set uses them, wherever they run."""

    @property
    def restarts(self) -> int:
        """How many were made anew."""
        ...

    def order(self, orders: Orders, only: int | None = None) -> None:
        """Gives all deliverers, or one, orders."""
        ...

    def request(self, deliverer: int) -> None:
        """Asks one deliverer."""
        ...

    def arrived(self) -> list[Any]:
        """Returns what deliverers have answered since the last call."""
        ...

    def awaited(self) -> tuple[tuple[Any, ...], float]:
        """Returns the Ray references, and the moment, of which one has to come before there is news of a request."""
        ...

    def due(self) -> list[int]:
        """Returns the numbers with which the workers' undelivered fragments begin."""
        ...

    def states(self) -> list[Any]:
        """Returns where the workers are, in their order."""
        ...

    def load_states(self, states: Sequence[Any], due: Sequence[int]) -> int:
        """Brings the workers back to where they were, and returns how many env slots could not be, exactly."""
        ...

    def close(self) -> None:
        """Ends them."""
        ...


class WorkerSet:
    """Rollout workers: a local one (`num_workers` 0, index 0), or remote ones (indices 1 to n).

    Making a set costs nothing; the workers start when they are first used. Remote ones need Ray: where none runs, as in
    a notebook, a private one is started, and stopped by `close`. With a local worker ray is never imported.

    Remote workers may be gathered behind aggregators, actors that each have a share of them: they ask and supervise
    those workers, and deliver whole batches. Who is asked, sent weights and waited for is then an aggregator.

    Args:
        config: What all workers share; each gets its own index in it.
        num_workers: Remote workers, 0 for the local one.
        num_cpus_per_worker: CPUs that the cluster sets aside for each remote worker.
        worker_timeout_s: Seconds after which a fragment is given up and its remote worker made anew.
        max_worker_restarts: Remote workers made anew before the failure becomes the trial's.
        factory: `module:Name` of what makes a `Worker` from its config.

    Attributes:
        config: What all workers share.
        indices: The workers' indices.
        deliverers: Indices of who is asked for fragments: the workers, or the aggregators that they are gathered
            behind, from 1.
        counts: What the rollouts that were received amount to; who receives one counts it.
    """

    def __init__(
        self,
        config: Any,
        num_workers: int,
        *,
        num_cpus_per_worker: float = 1.0,
        worker_timeout_s: float = 300.0,
        max_worker_restarts: int = 10,
        factory: str = ROLLOUT_WORKER,
    ) -> None:
        self.config = config
        self.num_workers = num_workers
        self.indices: Sequence[int] = tuple(range(1, num_workers + 1)) or (LOCAL_INDEX,)
        self.deliverers: Sequence[int] = self.indices
        self.counts = RolloutCounts()
        self._factory = factory
        self._num_cpus = num_cpus_per_worker
        self._timeout_s = worker_timeout_s
        self._max_restarts = max_worker_restarts
        self._operators: dict[str, Postprocessing] = {}
        self._keeps_states = False
        self._aggregation: Aggregation | None = None
        self._started: StartedWorkers | None = None
        self._owns_ray = False
        self._earlier_restarts = 0

    @property
    def worker_restarts(self) -> int:
        """How many workers and aggregators were made anew, over all sessions of the trial."""
        return self._earlier_restarts + self._restarts_now

    @property
    def _restarts_now(self) -> int:
        return self._started.restarts if self._started else 0

    def postprocess(self, policy: str, operators: Postprocessing) -> None:
        """Has a policy's batches pass operators on the workers; to be said before the workers start."""
        if self._started:
            raise RuntimeError("the workers have started; their operators have to be named before")
        self._operators[policy] = operators

    def gather(self, aggregators: int, batch_size: int, in_flight: int, policy: str) -> None:
        """Gathers the remote workers behind aggregators, in shares of neighbours; to be said before they start.

        From then on batches come with `joined`.

        Args:
            aggregators: How many, at most one for each worker.
            batch_size: Steps [T * B] that fill a batch.
            in_flight: Requests that each worker has at a time.
            policy: Whose batches.
        """
        if self._started:
            raise RuntimeError("the workers have started; they have to be gathered before")
        if not 1 <= aggregators <= self.num_workers:
            raise ValueError(f"{self.num_workers} remote workers cannot be gathered behind {aggregators} aggregators")
        self.deliverers = tuple(range(1, aggregators + 1))
        self._aggregation = Aggregation(aggregators, batch_size, in_flight, policy)

    def keep_states(self) -> None:
        """Has each fragment tell where its remote worker stands, so that one that is lost is made anew just there.

        Who asks workers in rounds says so, before they start: then the numbers are those of a run without the loss.
        Without remote workers there is nothing to keep.
        """
        if not self.num_workers:
            return
        if self._started:
            raise RuntimeError("the workers have started; that their states are kept has to be said before")
        self._keeps_states = True

    @property
    def lost_nothing(self) -> bool:
        """Whether every worker that was made anew in this session goes on bit for bit as the one before it."""
        return not self._restarts_now or (self._keeps_states and not self.counts.env_slots_restarted)

    def start(self) -> None:
        """Starts the workers, if they have not been; remote ones are not waited for."""
        self._workers()

    def order(self, orders: Orders, only: int | None = None) -> None:
        """Gives all deliverers, or one, orders; they hold from the next request on.

        The same object given several times is stored once.
        """
        self._workers().order(orders, only)

    def request(self, deliverer: int) -> None:
        """Asks one deliverer for a fragment, which comes with `arrived`, or for a batch, which comes with `joined`."""
        self._workers().request(deliverer)

    def arrived(self) -> list[Rollout]:
        """Returns the fragments that are ready, without waiting for others; the local worker makes one now.

        Raises:
            RlrunError: What a worker raised, as it was.
            TrainingFailed: If more workers died than may be made anew.
        """
        return self._workers().arrived()

    def joined(self) -> list[JoinedRollouts]:
        """Returns the batches of aggregators that are ready, without waiting for others.

        Raises:
            RlrunError: What a worker raised, as it was.
            TrainingFailed: If more workers or aggregators died than may be made anew.
        """
        return self._workers().arrived()

    def awaited(self) -> tuple[tuple[Any, ...], float]:
        """Returns the Ray references, and the moment, of which one has to come before there is news of a request."""
        return self._workers().awaited()

    def state(self) -> dict[str, Any]:
        """Returns where all workers are, what is lacking of that, and what was counted."""
        states = self._workers().states()
        return {
            "workers": states,
            "unsaved": list(dict.fromkeys(reason for state in states for reason in state["unsaved"])),
            "next_fragments": self._workers().due(),
            "worker_restarts": self.worker_restarts,
            **self.counts.state(),
        }

    def load_state(self, state: Mapping[str, Any]) -> int:
        """Brings all workers back to where they were; requests under way are dropped.

        Returns:
            The number of env slots that could not be brought back exactly and began a new episode instead.

        Raises:
            CheckpointError: If the state is of another number of workers.
        """
        states = state["workers"]
        if len(states) != len(self.indices):
            raise CheckpointError(
                f"the checkpoint was saved with {len(states)} rollout workers and cannot be continued with "
                f"{len(self.indices)}"
            )
        workers = self._workers()
        self._earlier_restarts = int(state["worker_restarts"]) - self._restarts_now
        self.counts.load_state(state)
        return workers.load_states(states, state["next_fragments"])

    def close(self) -> None:
        """Ends the workers, and Ray if it was started for them."""
        if self._started:
            self._started.close()
        for operators in self._operators.values():
            operators.close()
        if self._owns_ray:
            private_ray.stop()
        self._started, self._owns_ray = None, False

    def _workers(self) -> StartedWorkers:
        """Returns the workers, which start at the first call."""
        if self._started is None:
            if self.num_workers:
                needed = math.ceil(self.num_workers * self._num_cpus)
                self._owns_ray = private_ray.start_unless_running(max(needed, os.cpu_count() or 1))
            self._started = self._made()
        return self._started

    def _made(self) -> StartedWorkers:
        if not self.num_workers:
            return LocalWorkers(self._factory, self.config, self._operators)
        make_workers = partial(
            RemoteWorkers,
            self._factory,
            self.config,
            self._operators,
            tell_places=self._keeps_states,
            marks=marks_place(),
            num_cpus=self._num_cpus,
            timeout_s=self._timeout_s,
            max_restarts=self._max_restarts,
        )
        if self._aggregation is None:
            return make_workers(indices=self.indices, due={})
        return AggregatedWorkers(
            make_workers,
            self.indices,
            self._aggregation,
            timeout_s=self._timeout_s,
            max_restarts=self._max_restarts,
        )
