"""Rollout workers in Ray actors."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from rlrun.actors.supervised_actors import SupervisedActors
from rlrun.envs.step_marks import MarksPlace, stepped_env
from rlrun.functional.saved_numbers import as_count
from rlrun.rollout.action_log import with_logs_joined
from rlrun.rollout.rollout import Rollout
from rlrun.rollout.sampler import Postprocessing, Sampler

if TYPE_CHECKING:
    from rlrun.actors.actor_place import Call
    from rlrun.rollout.worker import Orders


class RemoteWorkers:
    """Samples in one actor for each worker; making them starts all and waits for none. Ray must run before.

    They are supervised: whoever dies or hangs is made anew with the fragment that is due. Where workers tell their
    places it goes on from the last one, and makes the fragment that was lost.

    Args:
        factory: `module:Name` of what makes a worker from its config.
        config: What all workers share.
        operators: What batches pass on the workers, by policy.
        indices: The workers' indices.
        due: By worker, the number of its first fragment where that is not 0.
        tell_places: Whether each fragment tells where its worker is then.
        marks: Where workers note what they step, None for nowhere.
        num_cpus: CPUs that the cluster sets aside for each worker.
        timeout_s: Seconds after which a fragment is given up and its worker made anew.
        max_restarts: Workers made anew before the failure becomes the trial's.

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
        due: Mapping[int, int],
        tell_places: bool,
        marks: MarksPlace | None,
        num_cpus: float,
        timeout_s: float,
        max_restarts: int,
    ) -> None:
        self.indices = indices
        self._operators = operators
        self._make = partial(Sampler, factory=factory, config=config, tells_place=tell_places, marks=marks)
        self._tell_places = tell_places
        self._marks = marks
        self._due = {worker: due.get(worker, 0) for worker in indices}
        self._states: dict[int, Any] = {}
        self._inbox: deque[Call] = deque()
        self._here: list[Rollout] = []
        self._actors = SupervisedActors(
            self._sampler_of,
            indices,
            what="rollout worker",
            num_cpus=num_cpus,
            timeout_s=timeout_s,
            max_restarts=max_restarts,
            ended_in=self._ended_in,
        )

    @property
    def restarts(self) -> int:
        """How many workers were made anew."""
        return self._actors.restarts

    def order(self, orders: Orders, only: int | None = None) -> None:
        """Gives all workers, or one, orders; the same object given several times is stored once."""
        self._actors.tell("follow", orders, only, about=orders.about)

    def request(self, deliverer: int) -> None:
        """Asks a worker for a fragment."""
        self._actors.ask(deliverer, "sample").inbox = self._inbox

    def arrived(self) -> list[Rollout]:
        """Returns the fragments that are ready, without waiting for others.

        Raises:
            RlrunError: What a worker raised, as it was.
            TrainingFailed: If more workers died than may be made anew.
        """
        self._actors.attend()
        self._take_in()
        arrived, self._here = self._here, []
        return arrived

    def wait(self, until: float) -> None:
        """Waits until there may be news of a request, or for a moment on the clock of `time.monotonic`."""
        self._actors.wait(until)

    def awaited(self) -> tuple[tuple[Any, ...], float]:
        """Returns the Ray references, and the moment, of which one has to come before there is news of a request."""
        return self._actors.awaited()

    def due(self) -> list[int]:
        """Returns the numbers with which the workers' undelivered fragments begin."""
        return [self._due[worker] for worker in self.indices]

    def states(self) -> list[Any]:
        """Returns where the workers are, in their order."""
        return self._actors.answers_of_all("state", [()] * len(self.indices))

    def load_states(self, states: Sequence[Any], due: Sequence[int]) -> int:
        """Brings the workers back to where they were; requests are dropped.

        Args:
            states: What `states` returned.
            due: What `due` returned.

        Returns:
            The number of env slots that could not be brought back exactly.
        """
        self._inbox.clear()
        self._here.clear()
        self._actors.forget()
        self._due = dict(zip(self.indices, map(as_count, due), strict=True))
        if self._tell_places:
            self._states = dict(zip(self.indices, states, strict=True))
        return sum(self._actors.answers_of_all("load_state", [(state,) for state in states]))

    def close(self) -> None:
        """Ends the workers."""
        self._actors.close()

    def _take_in(self) -> None:
        """Notes of each fragment that has come, once, that it was delivered and where its worker is since."""
        while self._inbox:
            rollout: Rollout = self._inbox.popleft().answer
            worker = rollout.worker_index
            self._due[worker] = rollout.fragment + 1
            if self._tell_places:
                self._states[worker] = with_logs_joined(rollout.place, self._states.get(worker))
            self._here.append(rollout)

    def _sampler_of(self, worker: int) -> partial[Sampler]:
        """Returns what makes a worker's sampler, at its start and at each restart."""
        self._take_in()
        own = {policy: chain.for_worker(worker) for policy, chain in self._operators.items()}
        return partial(self._make, worker, operators=own, due=self._due[worker], state=self._states.get(worker))

    def _ended_in(self, worker: int) -> str:
        """Returns which env a worker stepped when it ended, "" if that is unknown."""
        stepped = None if self._marks is None else stepped_env(self._marks.directory, worker)
        return "" if stepped is None else f" in {stepped}"
