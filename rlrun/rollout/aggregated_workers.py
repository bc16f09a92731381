"""Rollout workers behind aggregators: actors that each ask and supervise a share of them and deliver whole batches."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rlrun.errors import TrainingFailed
from rlrun.rollout.aggregator import Aggregation, AggregatorConfig
from rlrun.rollout.rollout import JoinedRollouts
from rlrun.rollout.sampler_configs import SamplerConfigs
from rlrun.rollout.sampling_actors import SamplingActors, Supervision

if TYPE_CHECKING:
    from rlrun.policy.weights import Weights

AGGREGATOR = "rlrun.rollout.aggregator:Aggregator"
"""What makes an aggregator from its config."""

ANSWERS_WITHIN_S = 1.0
"""An aggregator whose batch is not full by then says so, and is asked again: it is alive, and hears of new weights."""


class AggregatedWorkers:
    """Has aggregators start the workers; who is asked, sent weights and waited for is an aggregator.

    Making them starts all and waits for none. Ray must run before.

    Args:
        configs: What the workers are made from.
        indices: The workers' indices.
        supervision: How workers and aggregators are supervised.
        aggregation: What the aggregators do.
    """

    def __init__(
        self, configs: SamplerConfigs, indices: Sequence[int], supervision: Supervision, aggregation: Aggregation
    ) -> None:
        self._configs = configs
        self._supervision = supervision
        self._aggregation = aggregation
        self._indices = indices
        self._shares = shares(len(indices), aggregation.aggregators)
        self._restarts_of_workers = 0
        self._actors = SamplingActors(
            AGGREGATOR,
            range(1, aggregation.aggregators + 1),
            self._aggregator_config,
            what="aggregator",
            # It mostly waits; its workers have CPUs of their own.
            supervision=dataclasses.replace(supervision, num_cpus=0.0),
        )

    @property
    def restarts(self) -> int:
        """How many workers and aggregators were made anew."""
        return self._restarts_of_workers + self._actors.restarts

    def set_weights(self, weights: Mapping[str, Weights], only: int | None = None) -> None:
        """Gives all aggregators, or one, new weights by policy, which go on to the workers between two batches."""
        self._actors.tell("set_weights", weights, only, about=" ".join(weights))

    def set_env_kwargs(self, kwargs: Mapping[str, Any]) -> None:
        """Gives the envs of all workers what a curriculum says, from each one's next episode on."""
        self._actors.tell("set_env_kwargs", kwargs)

    def request(self, deliverer: int) -> None:
        """Asks an aggregator for a batch."""
        self._actors.request(deliverer)

    def arrived(self) -> list[JoinedRollouts]:
        """Returns the batches that are ready, without waiting for others.

        Raises:
            RlrunError: What a worker raised, as it was.
            TrainingFailed: If more workers or aggregators died than may be made anew.
        """
        arrived: list[JoinedRollouts] = self._actors.take()
        for joined in arrived:
            self._configs.note(joined.fragments)
            self._restarts_of_workers += joined.worker_restarts
        if self.restarts > self._supervision.max_restarts:
            raise TrainingFailed(
                f"{self.restarts} rollout workers and aggregators had to be made anew, and max_worker_restarts "
                f"allows {self._supervision.max_restarts}"
            )
        return arrived

    def awaited(self) -> tuple[tuple[Any, ...], float]:
        """Returns the Ray references, and the moment, of which one has to come before there is news of a request."""
        return self._actors.awaited()

    def states(self) -> list[Any]:
        """Returns where the workers are, in their order, whatever aggregators they stand behind."""
        answers = self._actors.answers("states", [()] * len(self._shares))
        return [state for states in answers for state in states]

    def load_states(self, states: Sequence[Any], due: Sequence[int]) -> int:
        """Brings the workers back to where they were; requests, and what waits at the aggregators, are dropped.

        Args:
            states: What `states` returned.
            due: The numbers with which the workers' undelivered fragments begin.

        Returns:
            The number of env slots that could not be brought back exactly.
        """
        self._actors.forget()
        self._configs.load_due(self._indices, due)
        return sum(self._actors.answers("load_states", [(states[share], due[share]) for share in self._shares]))

    def close(self) -> None:
        """Ends the workers and the aggregators."""
        self._actors.close()

    def _aggregator_config(self, aggregator: int, here: list[JoinedRollouts]) -> AggregatorConfig:
        for joined in here:
            self._configs.note(joined.fragments)
        return AggregatorConfig(
            index=aggregator,
            configs=self._configs,
            workers=self._indices[self._shares[aggregator - 1]],
            supervision=self._supervision,
            aggregation=self._aggregation,
            answers_within_s=min(ANSWERS_WITHIN_S, self._supervision.timeout_s / 2),
        )


def shares(workers: int, aggregators: int) -> list[slice]:
    """Returns which of the workers stand behind each aggregator: neighbours, in shares that differ by one at most."""
    return [
        slice(aggregator * workers // aggregators, (aggregator + 1) * workers // aggregators)
        for aggregator in range(aggregators)
    ]
