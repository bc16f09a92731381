"""Data-parallel learners in Ray actors, each of which processes a share of every minibatch."""

from __future__ import annotations

import math
import os
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlrun.engine.actors import private_ray
from rlrun.engine.actors.actor_place import Call
from rlrun.engine.actors.supervised_actors import SupervisedActors
from rlrun.engine.data.sample_batch import SampleBatch, network_columns
from rlrun.engine.learner.data_parallel.all_reduce import AllReduce, PeerLost
from rlrun.engine.learner.data_parallel.replica import Replica, ReplicaConfig
from rlrun.engine.learner.learner import EvaluatedFunction, LastBatch, LearnerFactory, Recompute
from rlrun.engine.learner.output_functions import require_picklable
from rlrun.engine.messages.errors import UsageError
from rlrun.engine.policy.policy import Policy

WITHOUT_IT = (
    "the others cannot continue without it; set failure.max_restarts to restart the trial from its newest checkpoint"
)


class LearnerGroup:
    """Synchronous data-parallel SGD: several replicas of a learner divide each minibatch among themselves.

    All replicas hold bit-identical parameters and optimizer states. Each replica shuffles rows and draws random numbers
    identically, computes the gradient of a share of the minibatch, and applies the sum of all gradients. Results equal
    those of a `LocalLearner` up to rounding, or bit for bit if there is only one replica. Checkpoints do not depend
    on the number of replicas.

    A batch is put into Ray's object store once; all replicas on a machine read it from there. If a replica dies or
    hangs, the trial fails; it can restart from its newest checkpoint.

    The constructor starts the replicas (and Ray, if needed), and blocks until all replicas have joined.

    Args:
        make_learner: Picklable learner factory.
        num_learners: Number of replicas.
        policy: Policy to train.
        num_cpus_per_learner: CPUs that Ray reserves per replica.
        num_gpus_per_learner: GPUs that Ray reserves per replica.
        timeout_s: Timeout of a replica's call, in seconds.
        cpus_of_others: CPUs that rollout workers and other policies' learners need; used only if this group starts Ray.

    Attributes:
        policy: Policy to train.
        sgd_steps: Number of minibatch updates so far.
        weights_version: Version of the weights: number of batches learned so far.
        last_batch: Last batch learned, for diagnostics; see `last_batch_of`.
    """

    def __init__(
        self,
        make_learner: LearnerFactory,
        num_learners: int,
        *,
        policy: Policy,
        num_cpus_per_learner: float = 1.0,
        num_gpus_per_learner: float = 0.0,
        timeout_s: float = 300.0,
        cpus_of_others: float = 0.0,
    ) -> None:
        self.policy = policy
        self.sgd_steps = 0
        self.weights_version = 0
        self.last_batch: LastBatch = None
        self._ranks = range(num_learners)
        needed = math.ceil(num_learners * num_cpus_per_learner + cpus_of_others)
        self._owns_ray = private_ray.start_unless_running(max(needed, os.cpu_count() or 1))
        self._meeting = AllReduce(0, num_learners, timeout_s=timeout_s)
        address = self._meeting.offer()
        self._actors = SupervisedActors(
            lambda rank: partial(
                Replica,
                ReplicaConfig(make_learner, rank, num_learners, address, num_gpus_per_learner == 1.0, timeout_s),
            ),
            self._ranks,
            what="learner",
            num_cpus=num_cpus_per_learner,
            num_gpus=num_gpus_per_learner,
            timeout_s=timeout_s,
            max_restarts=0,
            without_it=WITHOUT_IT,
        )
        try:
            self._ask_all("meet")
        except BaseException:
            self.close()
            raise

    def learn(
        self,
        batch: SampleBatch,
        *,
        num_epochs: int,
        minibatch_size: int,
        scheduled: Mapping[str, float],
        stop: tuple[str, float] | None = None,
        objectives: Collection[str] | None = None,
        recompute: Recompute | None = None,
    ) -> None:
        """Trains for several epochs of minibatch SGD on a batch of experience, divided among the replicas.

        Args:
            batch: Columns of experience, [sequences, steps, ...].
            num_epochs: Number of epochs (passes over the batch).
            minibatch_size: Steps per minibatch, summed over all learners; rounded up to equal shares.
            scheduled: Current values of scheduled settings by name, including learning rates.
            stop: Early stopping (statistic, bound): training stops once the statistic's epoch mean exceeds the bound.
            objectives: Names of the objectives to run; None for all.
            recompute: Function that recomputes columns of the batch before each epoch except the first; None if there
                is none.
        """
        import ray

        self.last_batch = batch
        stored, again = ray.put(batch), None if recompute is None else ray.put(recompute)
        names = None if objectives is None else tuple(objectives)
        sizes = num_epochs, minibatch_size
        self.sgd_steps = self._ask_all("learn", stored, *sizes, dict(scheduled), stop, names, again)[0]
        self.weights_version += 1

    def step(
        self,
        batch: SampleBatch,
        *,
        scheduled: Mapping[str, float],
        objectives: Collection[str] | None = None,
        minibatches: int = 1,
    ) -> NDArray[np.float32]:
        """Trains on one or more minibatches in turn, each divided into equal shares of consecutive rows.

        Args:
            batch: Rows of experience [sequences, steps, ...]; the number of rows per minibatch must be a multiple of
                the number of replicas.
            scheduled: Current values of scheduled settings by name, including learning rates.
            objectives: Names of the objectives to run; None for all.
            minibatches: Number of minibatches into which the batch is split, each of consecutive rows.

        Returns:
            New replay priorities, one per sequence; empty if the loss computes none, or with several minibatches.

        Raises:
            UsageError: The rows of a minibatch cannot be divided into equal shares.
        """
        import ray

        if (size := len(batch["valid"]) // minibatches) % len(self._ranks):
            raise UsageError(f"{len(self._ranks)} learners cannot divide a minibatch of {size} rows into equal shares")
        self.last_batch = batch
        names = None if objectives is None else tuple(objectives)
        shares = self._ask_all("step", ray.put(batch), dict(scheduled), names, minibatches)
        self.weights_version += minibatches
        self.sgd_steps += minibatches
        return np.concatenate(shares)

    def apply_gradients(
        self, gradients: NDArray[np.float32], statistics: Mapping[str, Sequence[str]], *, scheduled: Mapping[str, float]
    ) -> None:
        """Updates all replicas' parameters with gradients computed by another learner.

        Args:
            gradients: Concatenated gradient sums of the objectives.
            statistics: Names of each loss's statistics: `statistics_of_gradients` of the other learner.
            scheduled: Current values of scheduled settings by name, including learning rates.
        """
        self.sgd_steps = self._ask_all("apply_gradients", gradients, dict(statistics), dict(scheduled))[0]
        self.weights_version += 1

    def evaluate(self, function: EvaluatedFunction, batch: SampleBatch) -> Any:
        """Evaluates a function of the policy's network outputs on a batch, in the first replica.

        Raises:
            ValueError: Other processes cannot import the function by its module and name.
        """
        require_picklable(function)
        return self._call_first("evaluate", function, batch)

    def last_statistics(self) -> dict[str, float]:
        """Returns the mean of each training statistic over the last update."""
        statistics: dict[str, float] = self._call_first("last_statistics")
        return statistics

    def take_statistics(self) -> dict[str, float]:
        """Returns the mean of each training statistic since the last call, and resets them."""
        statistics: dict[str, float] = self._call_all("take_statistics")[0]
        return statistics

    def is_finite(self) -> bool:
        """Whether all parameters are finite: none is NaN or infinite."""
        return bool(self._call_first("is_finite"))

    def flat(self) -> NDArray[np.float32]:
        """Returns a copy of all of the policy's parameters, as one flat vector."""
        flat: NDArray[np.float32] = self._call_first("flat")
        return flat

    def acting_flat(self) -> NDArray[np.float32]:
        """Returns a copy of the parameters that rollout workers need for acting, as one flat vector."""
        acting: NDArray[np.float32] = self._call_first("acting_flat")
        return acting

    def load_flat(self, flat: NDArray[np.float32]) -> None:
        """Replaces all of the policy's parameters with those in a flat vector."""
        self._call_all("load_flat", flat)

    def target_outputs(self, batch: SampleBatch) -> NDArray[np.float32]:
        """Computes the target network's outputs [S, L, K] for S sequences of L steps, divided among the replicas."""
        import ray

        stored = ray.put(network_columns(batch))
        parts = [part for part in self._ask_all("target_outputs", stored) if part is not None]
        return np.concatenate(parts)

    def update_target(self, tau: float = 1.0, prefix: str = "") -> None:
        """Moves the target network towards the current parameters by the fraction `tau`; 1 copies them."""
        self._call_all("update_target", tau, prefix)

    def target(self) -> NDArray[np.float32] | None:
        """Returns a copy of the target network's parameters, as one flat vector; None without a target network."""
        target: NDArray[np.float32] | None = self._call_first("target")
        return target

    def load_target(self, flat: NDArray[np.float32]) -> None:
        """Replaces the target network's parameters with those in a flat vector."""
        self._call_all("load_target", flat)

    def optimizer_state(self) -> dict[str, NDArray[np.float32]]:
        """Returns the state of the optimizers for a checkpoint, as tensors by name."""
        named: dict[str, NDArray[np.float32]] = self._call_first("optimizer_state")
        return named

    def load_optimizer_state(self, named: Mapping[str, NDArray[np.float32]]) -> None:
        """Restores the optimizers from the dict that `optimizer_state()` returned."""
        self._call_all("load_optimizer_state", dict(named))

    def state(self) -> dict[str, Any]:
        """Returns counters and the random state of minibatch shuffling for a checkpoint, as `LocalLearner` does."""
        counted = {"sgd_steps": self.sgd_steps, "weights_version": self.weights_version}
        return {**self._call_first("state"), **counted}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Restores the `state()` of a single learner, or of a group with any number of replicas."""
        self.sgd_steps = int(state["sgd_steps"])
        self.weights_version = int(state["weights_version"])
        self._call_all("load_state", dict(state))

    def adopt_state(self, state: Mapping[str, Any]) -> None:
        """Takes over the counters in another learner's `state()`, but not its random state."""
        self.sgd_steps = int(state["sgd_steps"])
        self._call_all("adopt_state", dict(state))

    def close(self) -> None:
        """Terminates the replicas, and shuts down Ray if this group started Ray."""
        self._actors.close()
        self._meeting.close()
        if self._owns_ray:
            private_ray.stop()
        self._owns_ray = False

    def _call_all(self, method: str, *arguments: Any) -> list[Any]:
        """Calls a method on all replicas; returns the results in rank order."""
        return self._ask_all("call", method, *arguments)

    def _call_first(self, method: str, *arguments: Any) -> Any:
        """Calls a method on the first replica only: all replicas have the same state."""
        return self._answers([self._actors.ask(0, "call", method, *arguments)])[0]

    def _ask_all(self, method: str, *arguments: Any) -> list[Any]:
        return self._answers([self._actors.ask(rank, method, *arguments) for rank in self._ranks])

    def _answers(self, calls: Sequence[Call]) -> list[Any]:
        """Waits for the results of calls to the replicas.

        Raises:
            RlrunError: A learner raised this exception.
            TrainingFailed: A replica died or timed out.
        """
        try:
            return self._actors.answers(calls)
        except PeerLost:  # raised by a survivor; the ping identifies the learner that died
            self._actors.forget()
            self._actors.answers([self._actors.ask(rank, "ping") for rank in self._ranks])
            raise
