"""All rollout workers of a trial: one in the trial's process, or several in Ray actors."""

from __future__ import annotations

import dataclasses
import math
import os
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

from rlrun.engine.envs.step_marks import step_mark_location
from rlrun.engine.messages.errors import CheckpointError
from rlrun.engine.rollout.counts import RolloutCounts
from rlrun.engine.rollout.worker import GROUPED_WORKER, ROLLOUT_WORKER, Orders
from rlrun.engine.rollout.worker_config import LOCAL_INDEX
from rlrun.engine.settings.registry import load_internal

if TYPE_CHECKING:
    from rlrun.engine.rollout.inference.server_actor import ServedPolicies
    from rlrun.engine.rollout.sampler import Postprocessing

PLACES = {
    "local": "rlrun.engine.rollout.local_workers:LocalWorkers",
    "remote": "rlrun.engine.rollout.remote_workers:RemoteWorkers",
    "inference server": "rlrun.engine.rollout.inference.server_actor:ServerActor",
    "start of Ray": "rlrun.engine.actors.private_ray:start_unless_running",
    "end of Ray": "rlrun.engine.actors.private_ray:stop",
}
"""Import paths of local and remote workers, and of the functions that start and stop Ray for actors."""


class StartedWorkers(Protocol):
    """Interface of running rollout workers, local or remote."""

    @property
    def restarts(self) -> int:
        """Number of worker restarts."""
        ...

    def order(self, orders: Orders, only: int | None = None) -> None:
        """Sends new weights or env keyword arguments to one worker or all; they take effect from the next request on.

        An object that is sent several times is stored only once in Ray.
        """
        ...

    def request(self, worker: int) -> None:
        """Requests a fragment from a worker; `arrived` returns it later."""
        ...

    def arrived(self) -> list[Any]:
        """Returns the fragments that are ready, without waiting for more; a local worker collects one now.

        Raises:
            RlrunError: A worker raised this error.
            TrainingFailed: A worker died, and the maximum number of restarts has been reached.
        """
        ...

    def awaited(self) -> tuple[tuple[Any, ...], float]:
        """Returns the Ray references to wait on for the next fragment, and the deadline of the wait.

        The wait is over as soon as any one of the references is ready.
        """
        ...

    def due(self) -> list[int]:
        """Returns, for each worker, the index (from 0) of its first fragment that has not been delivered."""
        ...

    def states(self) -> list[Any]:
        """Returns the states of the workers, in the order of their indices."""
        ...

    def load_states(self, states: Sequence[Any], due: Sequence[int]) -> int:
        """Restores the workers' states; returns the number of env slots that could not be restored exactly."""
        ...

    def close(self) -> None:
        """Ends the workers, and their processes if they have any."""
        ...


class WorkerSet:
    """All rollout workers of a trial: one in the trial's process (`num_workers` 0), or several in Ray actors.

    Workers start lazily, on first use. Remote workers need Ray: without a running cluster, as in a notebook, a private
    one is started, and stopped by `close`. With a local worker, ray is never imported.

    Args:
        config: Config that all workers share, except for the worker's index.
        num_workers: Number of remote workers; 0 for only the local worker.
        num_cpus_per_worker: CPUs that Ray reserves for each remote worker.
        num_gpus_per_worker: GPUs that Ray reserves for each remote worker.
        worker_timeout_s: Seconds to wait for a fragment before its remote worker is restarted.
        max_worker_restarts: Maximum number of restarts of all remote workers together, before the trial fails.
        factory: `module:Name` of a `Worker` class, instantiated with its config.
        min_share_of_fragments: Fraction of the remote workers whose fragments suffice to complete a synchronous round.
        served: Settings of the inference server that chooses remote workers' actions; None if they choose their own.

    Attributes:
        config: Config that all workers share.
        indices: The workers' indices.
        fragments_per_round: Number of fragments that complete a synchronous round.
        counts: Counters of received rollouts, which the dataflow updates as it receives each rollout.
        served: Settings of the inference server that chooses remote workers' actions; None if they choose their own.
    """

    def __init__(
        self,
        config: Any,
        num_workers: int,
        *,
        num_cpus_per_worker: float = 1.0,
        num_gpus_per_worker: float = 0.0,
        worker_timeout_s: float = 300.0,
        max_worker_restarts: int = 10,
        factory: str = ROLLOUT_WORKER,
        min_share_of_fragments: float = 1.0,
        served: ServedPolicies | None = None,
    ) -> None:
        self.config = config
        self.num_workers = num_workers
        self.indices: Sequence[int] = tuple(range(1, num_workers + 1)) or (LOCAL_INDEX,)
        self.fragments_per_round = math.ceil(min_share_of_fragments * len(self.indices) - 1e-9)
        self.counts = RolloutCounts()
        self._factory = factory
        self.served = served
        self._num_cpus, self._num_gpus = num_cpus_per_worker, num_gpus_per_worker
        self._timeout_s = worker_timeout_s
        self._max_restarts = max_worker_restarts
        self._operators: dict[str, Postprocessing] = {}
        self._keeps_states = False
        self._is_started = False
        self._owns_ray = False
        self._earlier_restarts = 0

    @property
    def worker_restarts(self) -> int:
        """Number of restarts of workers and the inference server, including those before the trial was resumed."""
        return self._earlier_restarts + self._restarts_now

    @property
    def _restarts_now(self) -> int:
        return self.started.restarts if self._is_started else 0

    def postprocess(self, policy: str, operators: Postprocessing) -> None:
        """Sets the operators that workers apply to a policy's batches; must be called before the workers start."""
        if self._is_started:
            raise RuntimeError("operators must be set before the workers start")
        self._operators[policy] = operators

    def keep_states(self) -> None:
        """Makes remote workers send their state with each fragment, so that a restart continues exactly.

        With synchronous rollouts, results are then the same as if no worker had failed. Must be called before the
        workers start; has no effect without remote workers.
        """
        if not self.num_workers:
            return
        if self._is_started:
            raise RuntimeError("keep_states must be called before the workers start")
        self._keeps_states = True

    @property
    def lost_nothing(self) -> bool:
        """Whether no fragment was dropped and every restarted worker continued exactly where it failed."""
        if self.counts.fragments_left_out:
            return False
        return not self._restarts_now or (self._keeps_states and not self.counts.env_slots_restarted)

    @cached_property
    def started(self) -> StartedWorkers:
        """The workers; the first access starts them, without waiting for remote ones."""
        if self.num_workers:
            needed = math.ceil(self.num_workers * self._num_cpus) + math.ceil(
                0.0 if self.served is None else self.served.num_cpus
            )
            self._owns_ray = load_internal(PLACES["start of Ray"])(max(needed, os.cpu_count() or 1))
        made = self._made()
        self._is_started = True
        return made

    def state(self) -> dict[str, Any]:
        """Returns the workers' states and the counters, and the reasons why restoring them would not be exact."""
        states = self.started.states()
        return {
            "workers": states,
            "unsaved": list(dict.fromkeys(reason for state in states for reason in state["unsaved"])),
            "next_fragments": self.started.due(),
            "worker_restarts": self.worker_restarts,
            **self.counts.state(),
        }

    def load_state(self, state: Mapping[str, Any]) -> int:
        """Restores workers and counters from the result of `state()`, and drops pending requests.

        Returns:
            The number of env slots that could not be restored exactly and began a new episode instead.

        Raises:
            CheckpointError: The state was saved with a different number of workers.
        """
        states = state["workers"]
        if len(states) != len(self.indices):
            raise CheckpointError(
                f"the checkpoint was saved with {len(states)} rollout workers and cannot be resumed with "
                f"{len(self.indices)}"
            )
        workers = self.started
        self._earlier_restarts = int(state["worker_restarts"]) - self._restarts_now
        self.counts.load_state(state)
        return workers.load_states(states, state["next_fragments"])

    def close(self) -> None:
        """Closes the workers, and shuts down Ray if it was started for them."""
        if self._is_started:
            self.started.close()
            del self.started
        for operators in self._operators.values():
            operators.close()
        if self._owns_ray:
            load_internal(PLACES["end of Ray"])()
        self._is_started = self._owns_ray = False

    def _made(self) -> StartedWorkers:
        made: StartedWorkers
        if not self.num_workers:
            made = load_internal(PLACES["local"])(self._factory, self.config, self._operators)
            return made
        factory, config, server = self._factory, self.config, None
        if self.served is not None:
            server = load_internal(PLACES["inference server"])(
                self.served,
                self.num_workers,
                by_round=self._keeps_states,
                timeout_s=self._timeout_s,
                max_restarts=self._max_restarts,
            )
            factory = GROUPED_WORKER
            config = dataclasses.replace(config, groups=self.served.groups, server=server.name)
        made = load_internal(PLACES["remote"])(
            factory,
            config,
            self._operators,
            self.indices,
            server=server,
            send_places=self._keeps_states,
            marks=step_mark_location(),
            num_cpus=self._num_cpus,
            num_gpus=self._num_gpus,
            timeout_s=self._timeout_s,
            max_restarts=self._max_restarts,
        )
        return made
