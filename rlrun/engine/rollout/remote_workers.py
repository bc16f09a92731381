"""Rollout workers in Ray actors, which are restarted if they fail."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from rlrun.engine.actors.supervised_actors import SupervisedActors
from rlrun.engine.envs.step_marks import StepMarkLocation, stepped_env
from rlrun.engine.functional.saved_numbers import as_count
from rlrun.engine.rollout.action_log import with_logs_joined
from rlrun.engine.rollout.rollout import Rollout
from rlrun.engine.rollout.sampler import Postprocessing, Sampler

if TYPE_CHECKING:
    from rlrun.engine.actors.actor_place import Call
    from rlrun.engine.rollout.inference.server_actor import ServerActor
    from rlrun.engine.rollout.worker import Orders


class RemoteWorkers:
    """Rollout workers in Ray actors, restarted if they die or hang; Ray must already be running.

    The constructor starts all workers without waiting for them. A worker that dies or hangs is restarted, and continues
    with the fragment after the last one delivered, in new episodes. With `send_places`, it is first restored to its
    state after the last delivered fragment, so that the lost fragment is collected again.

    Args:
        factory: `module:Name` of the workers' class, instantiated with a worker config.
        config: Config that all workers share.
        operators: Postprocessing that workers apply to each policy's batches.
        indices: The workers' indices.
        send_places: Whether each fragment includes the worker's state after the fragment.
        marks: Directory of the files in which workers note the env being stepped, for messages after a crash; None to
            write none.
        num_cpus: CPUs that Ray reserves for each worker.
        num_gpus: GPUs that Ray reserves for each worker.
        timeout_s: Seconds to wait for a fragment before its worker is restarted.
        max_restarts: Maximum number of restarts of all workers together, before the trial fails.
        server: The inference server that chooses the workers' actions; None if workers choose their own actions.

    Attributes:
        indices: The workers' indices.
    """

    def __init__(
        self,
        factory: str,
        config: Any,
        operators: Mapping[str, Postprocessing],
        indices: Sequence[int],
        *,
        send_places: bool,
        marks: StepMarkLocation | None,
        num_cpus: float,
        num_gpus: float,
        timeout_s: float,
        max_restarts: int,
        server: ServerActor | None = None,
    ) -> None:
        self.indices = indices
        self._server = server
        self._operators = operators
        self._make = partial(Sampler, factory=factory, config=config, sends_place=send_places, marks=marks)
        self._send_places = send_places
        self._marks = marks
        self._due = dict.fromkeys(indices, 0)
        self._states: dict[int, Any] = {}
        self._inbox: deque[Call] = deque()
        self._here: list[Rollout] = []
        self._actors = SupervisedActors(
            self._sampler_of,
            indices,
            what="rollout worker",
            num_cpus=num_cpus,
            num_gpus=num_gpus,
            timeout_s=timeout_s,
            max_restarts=max_restarts,
            ended_in=self._ended_in,
            needs=None if server is None else server.actors,
        )

    @property
    def restarts(self) -> int:
        """Number of restarts so far, of workers and of their inference server."""
        return self._actors.restarts + (0 if self._server is None else self._server.actors.restarts)

    def order(self, orders: Orders, only: int | None = None) -> None:
        """Sends new weights or env keyword arguments to all workers, or to one.

        An object that is sent several times is stored only once in Ray.
        """
        if self._server is not None:
            orders = self._server.follow(orders)
        self._actors.tell("follow", orders, only, about=orders.about)

    def request(self, worker: int) -> None:
        """Requests a fragment from a worker; `arrived` returns it later."""
        self._actors.ask(worker, "sample").inbox = self._inbox

    def arrived(self) -> list[Rollout]:
        """Returns the fragments that are ready, without waiting for more.

        Raises:
            RlrunError: A worker raised this error.
            TrainingFailed: A worker died, and the maximum number of restarts has been reached.
        """
        self._actors.attend()
        self._take_in()
        arrived, self._here = self._here, []
        return arrived

    def awaited(self) -> tuple[tuple[Any, ...], float]:
        """Returns the Ray references to wait for until a fragment arrives (any one suffices), and a deadline."""
        return self._actors.awaited()

    def due(self) -> list[int]:
        """Returns, for each worker, the index (from 0) of its first fragment that has not been delivered."""
        return [self._due[worker] for worker in self.indices]

    def states(self) -> list[Any]:
        """Returns the states of the workers, in the order of their indices."""
        return self._actors.answers_of_all("state", [()] * len(self.indices))

    def load_states(self, states: Sequence[Any], due: Sequence[int]) -> int:
        """Restores the workers' states, and drops pending requests.

        Args:
            states: Result of `states()`.
            due: For each worker, the index (from 0) of its first fragment that has not been delivered.

        Returns:
            The number of env slots that could not be restored exactly.
        """
        self._inbox.clear()
        self._here.clear()
        self._actors.forget()
        self._due = dict(zip(self.indices, map(as_count, due), strict=True))
        if self._send_places:
            self._states = dict(zip(self.indices, states, strict=True))
        return sum(self._actors.answers_of_all("load_state", [(state,) for state in states]))

    def close(self) -> None:
        """Ends the processes of the workers and of the inference server."""
        self._actors.close()
        if self._server is not None:
            self._server.actors.close()

    def _take_in(self) -> None:
        """Records the next fragment number of each received fragment's worker, and the worker's state for restarts."""
        while self._inbox:
            rollout: Rollout = self._inbox.popleft().answer
            worker = rollout.worker_index
            self._due[worker] = rollout.fragment + 1
            if self._send_places:
                self._states[worker] = with_logs_joined(rollout.place, self._states.get(worker))
            self._here.append(rollout)

    def _sampler_of(self, worker: int) -> partial[Sampler]:
        """Returns the factory of a worker's sampler, for its start and each restart."""
        self._take_in()
        own = {policy: chain.for_worker(worker) for policy, chain in self._operators.items()}
        return partial(self._make, worker, operators=own, due=self._due[worker], state=self._states.get(worker))

    def _ended_in(self, worker: int) -> str:
        """Returns a clause for an error message with the env slot that a failed worker stepped last; "" if unknown."""
        stepped = None if self._marks is None else stepped_env(self._marks.directory, worker)
        return "" if stepped is None else f" in {stepped}"
