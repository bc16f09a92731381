"""Rollout workers in Ray actors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rlrun.envs.step_marks import stepped_env
from rlrun.rollout.rollout import Rollout
from rlrun.rollout.sampler import SamplerConfig
from rlrun.rollout.sampler_configs import SamplerConfigs
from rlrun.rollout.sampling_actors import SamplingActors, Supervision

if TYPE_CHECKING:
    from rlrun.policy.weights import Weights

SAMPLER = "rlrun.rollout.sampler:Sampler"
"""What makes a worker with its operators from its config."""


class RemoteWorkers:
    """Samples in one actor for each worker; making them starts all and waits for none. Ray must run before.

    Args:
        configs: What the workers are made from.
        indices: The workers' indices.
        supervision: How they are supervised.

    Attributes:
        indices: The workers' indices.
    """

    def __init__(self, configs: SamplerConfigs, indices: Sequence[int], supervision: Supervision) -> None:
        self.indices = indices
        self._configs = configs
        self._actors = SamplingActors(
            SAMPLER,
            indices,
            self._sampler_config,
            what="rollout worker",
            supervision=supervision,
            ended_in=self._ended_in,
        )

    @property
    def restarts(self) -> int:
        """How many workers were made anew."""
        return self._actors.restarts

    def set_weights(self, weights: Mapping[str, Weights], only: int | None = None) -> None:
        """Gives all workers, or one, new weights by policy; the same object sent several times is stored once."""
        self._actors.tell("set_weights", weights, only, about=" ".join(weights))

    def set_env_kwargs(self, kwargs: Mapping[str, Any]) -> None:
        """Gives the envs of all workers what a curriculum says, from each one's next episode on."""
        self._actors.tell("set_env_kwargs", kwargs)

    def request(self, deliverer: int) -> None:
        """Asks a worker for a fragment."""
        self._actors.request(deliverer)

    def arrived(self) -> list[Rollout]:
        """Returns the fragments that are ready, without waiting for others.

        Raises:
            RlrunError: What a worker raised, as it was.
            TrainingFailed: If more workers died than may be made anew.
        """
        arrived: list[Rollout] = self._actors.take()
        self._configs.note(arrived)
        return arrived

    def wait(self, until: float) -> None:
        """Waits until there may be news of a request, or for a moment on the clock of `time.monotonic`."""
        self._actors.wait(until)

    def awaited(self) -> tuple[tuple[Any, ...], float]:
        """Returns the Ray references, and the moment, of which one has to come before there is news of a request."""
        return self._actors.awaited()

    def states(self) -> list[Any]:
        """Returns where the workers are, in their order."""
        return self._actors.answers("state", [()] * len(self.indices))

    def load_states(self, states: Sequence[Any], due: Sequence[int]) -> int:
        """Brings the workers back to where they were; requests are dropped.

        Args:
            states: What `states` returned.
            due: The numbers with which the workers' undelivered fragments begin.

        Returns:
            The number of env slots that could not be brought back exactly.
        """
        self._actors.forget()
        self._configs.load_due(self.indices, due)
        self._configs.load_states(self.indices, states)
        return sum(self._actors.answers("load_state", [(state,) for state in states]))

    def close(self) -> None:
        """Ends the workers."""
        self._actors.close()

    def _ended_in(self, worker: int) -> str:
        """Returns which env a worker stepped when it ended, "" if that is unknown."""
        stepped = None if self._configs.marks is None else stepped_env(self._configs.marks.directory, worker)
        return "" if stepped is None else f" in {stepped}"

    def _sampler_config(self, worker: int, here: list[Rollout]) -> SamplerConfig:
        self._configs.note(here)
        return self._configs.of(worker)
