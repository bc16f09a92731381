"""Several learners that learn together, each in an actor of its own and from its share of every minibatch (Ray)."""

from __future__ import annotations

import math
import os
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlrun.actors import private_ray
from rlrun.actors.actor_place import Call
from rlrun.actors.supervised_actors import SupervisedActors
from rlrun.data.sample_batch import SampleBatch, network_columns
from rlrun.learner.all_reduce import AllReduce, PeerLost
from rlrun.learner.evaluation import demand_named
from rlrun.learner.learner import EvaluatedFunction, LearnerFactory
from rlrun.learner.objective import Objective
from rlrun.learner.parameter_server import ParameterShard, ShardConfig, shard_configs, whole_optimizer_state
from rlrun.learner.replica import Replica, ReplicaConfig
from rlrun.policy.policy import Policy

WITHOUT_IT = (
    "the others cannot go on without it; with failure.max_restarts the trial starts again from its newest checkpoint"
)


class LearnerGroup:
    """Learns like one `LocalLearner`, with the work of each minibatch shared out to several.

    All replicas hold the same parameters and optimizer state, bit for bit: each draws the same order of rows, computes
    the gradient of its part of a minibatch, and moves by the sum of all. Up to rounding that is what one learner would
    do; with one replica it is the same to the last bit. A checkpoint does not tell how many there were.

    With parameter servers the optimizer is theirs and they make the sum, see `rlrun.learner.parameter_server`.

    A batch is put into Ray's object store once, and all replicas of a machine read it there. A replica that dies or
    hangs takes the trial with it, which may start again from its newest checkpoint.

    Making it starts the learners, and Ray if none runs, and waits until they have met.

    Args:
        make_learner: Picklable learner factory.
        num_learners: How many.
        policy: The policy that they learn, for what is to be known of it here.
        num_parameter_servers: Processes that hold a slice of the parameters and the optimizer each; 0 for none.
        objectives: What the learners minimise; only the servers' slices depend on it.
        num_cpus_per_learner: CPUs that Ray sets aside for each.
        num_gpus_per_learner: GPUs that Ray sets aside for each.
        timeout_s: Seconds after which an answer is given up.
        cpus_of_others: CPUs that the rollout workers, and the learners of other policies, need of a Ray that is started
            here.

    Attributes:
        policy: The policy it learns.
        sgd_steps: Minibatches learned from.
        weights_version: Batches learned from.
        last_batch: What it learned from last, for a look at what went wrong; None before the first batch.
    """

    def __init__(
        self,
        make_learner: LearnerFactory,
        num_learners: int,
        *,
        policy: Policy,
        num_parameter_servers: int = 0,
        objectives: Sequence[Objective] = (),
        num_cpus_per_learner: float = 1.0,
        num_gpus_per_learner: float = 0.0,
        timeout_s: float = 300.0,
        cpus_of_others: float = 0.0,
    ) -> None:
        self.policy = policy
        self.sgd_steps = 0
        self.weights_version = 0
        self.last_batch: SampleBatch | None = None
        self._ranks = range(num_learners)
        needed = math.ceil(num_learners * num_cpus_per_learner + cpus_of_others)
        self._owns_ray = private_ray.start_unless_running(max(needed, os.cpu_count() or 1))
        shards: tuple[ShardConfig, ...] = ()
        if num_parameter_servers:
            shards = shard_configs(policy, objectives, num_parameter_servers, num_learners, timeout_s)
        self._meeting = AllReduce(0, num_learners, timeout_s=timeout_s)
        address = None if shards else self._meeting.offer()
        self._servers = self._started_servers(shards, num_learners, timeout_s) if shards else None
        self._actors = SupervisedActors(
            lambda rank: partial(
                Replica,
                ReplicaConfig(
                    make_learner, rank, num_learners, address, num_gpus_per_learner == 1.0, shards, timeout_s
                ),
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
            self._ask_all("meet", self._servers.shells() if self._servers else [])
            if self._servers:
                self.load_flat(self.flat())
        except BaseException:
            self.close()
            raise

    def _started_servers(self, shards: Sequence[ShardConfig], num_learners: int, timeout_s: float) -> SupervisedActors:
        return SupervisedActors(
            lambda index: partial(ParameterShard, shards[index]),
            range(len(shards)),
            what="parameter server",
            num_cpus=0.0,
            max_concurrency=num_learners + 1,  # learners wait in it for each other
            timeout_s=timeout_s,
            max_restarts=0,
            without_it=WITHOUT_IT,
        )

    def learn(
        self,
        batch: SampleBatch,
        *,
        num_epochs: int,
        minibatch_size: int,
        scheduled: Mapping[str, float],
        stop: tuple[str, float] | None = None,
        objectives: Collection[str] | None = None,
    ) -> None:
        """Runs epochs of minibatch SGD on a batch, as `LocalLearner.learn` does.

        Args:
            batch: Rows of experience [S, L, ...].
            num_epochs: Passes over the batch.
            minibatch_size: Steps in a minibatch, over all learners; rounded up to equal shares.
            scheduled: Present values of the settings that change over a run, by name; learning rates among them.
            stop: (name of a statistic, bound): no further epoch begins once its mean over an epoch lies above the
                bound.
            objectives: Names of the objectives that the batch is for; None for all.
        """
        import ray

        self.last_batch = batch
        stored = ray.put(batch)
        names = None if objectives is None else tuple(objectives)
        self.sgd_steps = self._ask_all("learn", stored, num_epochs, minibatch_size, dict(scheduled), stop, names)[0]
        self.weights_version += 1

    def step(
        self, batch: SampleBatch, *, scheduled: Mapping[str, float], objectives: Collection[str] | None = None
    ) -> NDArray[np.float32]:
        """Refuses to learn from a single minibatch: learners in processes of their own have no replay.

        Raises:
            RuntimeError: Always.
        """
        raise RuntimeError("learners in processes of their own learn from batches, not from a replay's minibatches")

    def apply_gradients(
        self, gradients: NDArray[np.float32], statistics: Mapping[str, Sequence[str]], *, scheduled: Mapping[str, float]
    ) -> None:
        """Moves all learners' parameters by what another learner's `gradients` returned.

        Args:
            gradients: The objectives' gradient sums one after another.
            statistics: What the other learner's `statistics_of_gradients` are.
            scheduled: Present values of the settings that change over a run, by name; learning rates among them.

        Raises:
            RuntimeError: There are parameter servers, which move by their own learners' gradients alone.
        """
        if self._servers:
            raise RuntimeError("parameter servers apply no gradients but those of their learners")
        self.sgd_steps = self._ask_all("apply_gradients", gradients, dict(statistics), dict(scheduled))[0]
        self.weights_version += 1

    def evaluate(self, function: EvaluatedFunction, batch: SampleBatch) -> Any:
        """Returns what a function of the policy's outputs gives on a batch, as the first learner finds it.

        Raises:
            ValueError: The function is not found by its module and name.
        """
        demand_named(function)
        return self._call_first("evaluate", function, batch)

    def last_statistics(self) -> dict[str, float]:
        """Returns the means of all statistics over the last update, as `LocalLearner.last_statistics` does."""
        statistics: dict[str, float] = self._call_first("last_statistics")
        return statistics

    def take_statistics(self) -> dict[str, float]:
        """Returns the means of all statistics since the last call, and starts them afresh."""
        statistics: dict[str, float] = self._call_all("take_statistics")[0]
        return statistics

    def is_finite(self) -> bool:
        """Whether all parameters are finite numbers."""
        return bool(self._call_first("is_finite"))

    def flat(self) -> NDArray[np.float32]:
        """Returns a copy of all parameters, [P]."""
        flat: NDArray[np.float32] = self._call_first("flat")
        return flat

    def acting_flat(self) -> NDArray[np.float32]:
        """Returns a copy of the parameters that act, [A]: the slice that `Policy.acting_range` names."""
        acting: NDArray[np.float32] = self._call_first("acting_flat")
        return acting

    def load_flat(self, flat: NDArray[np.float32]) -> None:
        """Loads parameters [P]."""
        self._call_all("load_flat", flat)
        self._ask_servers("load_flat", flat)

    def target_outputs(self, batch: SampleBatch) -> NDArray[np.float32]:
        """Returns what the target network puts out for rows [S, L], as [S, L, K]; each learner runs some rows."""
        import ray

        stored = ray.put(network_columns(batch))
        parts = [part for part in self._ask_all("target_outputs", stored) if part is not None]
        return np.concatenate(parts)

    def update_target(self, tau: float = 1.0, prefix: str = "") -> None:
        """Moves the target network's parameters by a fraction of their distance to the present ones; 1 copies them."""
        self._call_all("update_target", tau, prefix)

    def target(self) -> NDArray[np.float32] | None:
        """Returns a copy of the target network's parameters, [P], None if there is none."""
        target: NDArray[np.float32] | None = self._call_first("target")
        return target

    def load_target(self, flat: NDArray[np.float32]) -> None:
        """Loads the target network's parameters [P]."""
        self._call_all("load_target", flat)

    def optimizer_state(self) -> dict[str, NDArray[np.float32]]:
        """Returns the optimizer's tensors by name, for a checkpoint."""
        if self._servers:
            return whole_optimizer_state(self._ask_servers("optimizer_state"))
        named: dict[str, NDArray[np.float32]] = self._call_first("optimizer_state")
        return named

    def load_optimizer_state(self, named: Mapping[str, NDArray[np.float32]]) -> None:
        """Loads what `optimizer_state` returned."""
        if self._servers:
            self._ask_servers("load_optimizer_state", dict(named))
        else:
            self._call_all("load_optimizer_state", dict(named))

    def state(self) -> dict[str, Any]:
        """Returns counters and the state of the minibatch order, as one learner's would be."""
        counted = {"sgd_steps": self.sgd_steps, "weights_version": self.weights_version}
        return {**self._call_first("state"), **counted}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Loads what `state` returned, of a group of any size or of a single learner."""
        self.sgd_steps = int(state["sgd_steps"])
        self.weights_version = int(state["weights_version"])
        self._call_all("load_state", dict(state))

    def adopt_state(self, state: Mapping[str, Any]) -> None:
        """Adopts the counters of another learner's `state`; its own draws go on."""
        self.sgd_steps = int(state["sgd_steps"])
        self._call_all("adopt_state", dict(state))

    def close(self) -> None:
        """Ends the learners, and Ray if it was started for them."""
        self._actors.close()
        if self._servers:
            self._servers.close()
        self._meeting.close()
        if self._owns_ray:
            private_ray.stop()
        self._owns_ray = False

    def _call_all(self, method: str, *arguments: Any) -> list[Any]:
        """Calls a method of every learner and returns the answers in the order of their numbers."""
        return self._ask_all("call", method, *arguments)

    def _call_first(self, method: str, *arguments: Any) -> Any:
        """Returns what a method of the first learner returns, which is what it would return of any other."""
        return self._answers([self._actors.ask(0, "call", method, *arguments)])[0]

    def _ask_all(self, method: str, *arguments: Any) -> list[Any]:
        return self._answers([self._actors.ask(rank, method, *arguments) for rank in self._ranks])

    def _ask_servers(self, method: str, *arguments: Any) -> list[Any]:
        """Calls a method of every parameter server and returns the answers in their order; none without servers."""
        if self._servers is None:
            return []
        calls = [self._servers.ask(index, method, *arguments) for index in self._servers.indices]
        return self._servers.answers(calls)

    def _answers(self, calls: Sequence[Call]) -> list[Any]:
        """Waits for answers.

        Raises:
            RlrunError: What a learner raised, as it was.
            TrainingFailed: If a learner died or hung.
        """
        try:
            return self._actors.answers(calls)
        except PeerLost:  # says who has missed somebody; who is missed is the one that does not answer now
            self._actors.forget()
            self._ask_servers("ping")
            self._actors.answers([self._actors.ask(rank, "ping") for rank in self._ranks])
            raise
