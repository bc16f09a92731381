"""Learner in this process: minibatch SGD on a policy's parameters, on one device (torch)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from operator import itemgetter
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rlrun.engine.data.sample_batch import SampleBatch, network_columns
from rlrun.engine.functional.saved_numbers import as_count, load_generator
from rlrun.engine.learner.executors.update_executor import UpdateExecutor
from rlrun.engine.learner.learner import AllReduceTensor, EvaluatedFunction, LastBatch, Recompute
from rlrun.engine.learner.minibatch_updates import NO_PRIORITIES, MinibatchUpdates
from rlrun.engine.learner.minibatches import Passes, Selection, minibatches
from rlrun.engine.learner.objective import Objective, check_objectives
from rlrun.engine.learner.output_functions import require_picklable
from rlrun.engine.learner.staging import Staging, over_memory
from rlrun.engine.learner.update import Parameters, Precision
from rlrun.engine.policy.policy import Policy
from rlrun.engine.settings.registry import load_internal

SHARE_OF = "rlrun.engine.learner.gradient_sums:share_of"
"""Import path of the function that only data-parallel learners need."""


class LocalLearner:
    """Learner that trains one policy by minibatch SGD in this process, with all parameters in one flat vector.

    Args:
        policy: Policy to train, starting from its current parameters.
        objectives: Losses with their parameters and optimizers, in the order in which they run.
        device: Torch device name, `cpu` or `cuda`.
        update_executor: Backend of the updates: eager torch, NumPy kernels, or compiled code.
        runs_users_code: Whether updates run users' code, such as a custom network.
        seed: Seed of the minibatch shuffling.
        microbatch_size: Steps per microbatch, to save memory; None for a whole minibatch.
        all_reduce: Sums gradients over data-parallel learners; None for a single learner.
        share: (i, n): in data-parallel training, the learner computes part i (from 0) of n equal parts of a minibatch.
        precision: Floating-point precision of the networks' forward and backward passes.
        has_target: Whether the learner keeps a target network.
        announce: Callback that receives a message before a slow operation, such as compilation.

    Attributes:
        policy, objectives: The arguments of the same names.
        sgd_steps: Number of minibatch updates so far.
        weights_version: Version number of the weights: the number of batches learned so far.
        update_executor: Backend of the updates; fixed for a run, since results differ in the last bits.
        updates: Updates of the parameters, minibatch by minibatch.
        parameters, generator, staging: Parameters, random generator for shuffling and noise, and `Staging` of data.
        last_batch: Last batch learned, for diagnostics; see `last_batch_of`.

    Raises:
        ValueError: The objectives are inconsistent with each other or with the policy; see `check_objectives`.
    """

    def __init__(
        self,
        policy: Policy,
        objectives: Sequence[Objective],
        *,
        device: str,
        update_executor: UpdateExecutor,
        runs_users_code: bool = True,
        seed: int,
        microbatch_size: int | None = None,
        all_reduce: AllReduceTensor | None = None,
        share: tuple[int, int] = (0, 1),
        precision: Precision = "float32",
        has_target: bool = False,
        announce: Callable[[str], None] = lambda message: None,
    ) -> None:
        check_objectives(objectives, policy.parameters)
        self.policy, self.objectives = policy, tuple(objectives)
        self.device, self.update_executor = torch.device(device), update_executor
        self.sgd_steps = self.weights_version = 0
        self.last_batch: LastBatch = None
        self._share, self.staging = share, Staging(self.device)
        self.generator = np.random.Generator(np.random.Philox(seed))
        flat = policy.parameters.gather(policy.module).to(self.device)
        policy.module.to(self.device)
        self.parameters = Parameters(flat, flat.clone() if has_target else None)
        self._acting = flat.narrow(0, *policy.acting_range)
        self.updates = MinibatchUpdates(
            policy,
            self.objectives,
            self.parameters,
            update_executor=update_executor,
            runs_users_code=runs_users_code,
            microbatch_size=microbatch_size,
            all_reduce=all_reduce,
            precision=precision,
            announce=announce,
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
        recompute: Recompute | None = None,
    ) -> None:
        """Trains for several epochs of minibatch SGD on a batch of experience.

        All minibatches have the same shape: the last one of an epoch is padded with invalid rows. Random numbers that
        losses need (`Policy.draws`) are drawn once for the batch, so that a row has the same numbers in all epochs.

        Args:
            batch: Rows of experience [S, L, ...].
            num_epochs: Number of epochs (passes over the batch).
            minibatch_size: Steps (rows times L) per minibatch.
            scheduled: Current values of scheduled settings by name, including learning rates.
            stop: Early stopping (statistic, bound): training stops once the statistic's epoch mean exceeds the bound.
            objectives: Names of the objectives to run, as in `step`; None for all.
            recompute: Function that recomputes columns of the batch before each epoch but the first; None if unused.
        """
        self.last_batch = batch
        self.updates.begin_update()
        settings = self.staging.settings(scheduled)
        rows, length = batch["valid"].shape
        passes = Passes.over(rows, length, minibatch_size, self._share)
        noise = self.policy.draws(self.generator, rows, length)
        columns = self.staging.batch(SampleBatch(batch, **noise), spare=passes.spare)
        one_by_one = stop is not None or recompute is not None or self.updates.adapts_after_epochs
        together = num_epochs if self.updates.takes_rows and not one_by_one else 1
        for first in range(0, num_epochs, together):
            if first and recompute is not None:
                columns.update(self.staging.batch(recompute(self.evaluate), spare=passes.spare))
            order = np.concatenate([passes.order(self.generator) for _ in range(together)])
            before = self.updates.totals.total_of(stop[0]) if stop else (0.0, 0)
            if self.updates.takes_rows:
                selection = Selection(columns.map(Tensor.numpy), order.reshape(-1, passes.local_size))
                self.sgd_steps += selection.number
                self.updates.step_through(selection, settings, objectives)
            else:
                for minibatch in minibatches(columns, self.staging.order(order), passes.local_size):
                    self.sgd_steps += 1
                    self.updates.step(minibatch, settings, objectives)
            self.updates.end_epoch()
            if stop is not None and self.updates.totals.mean_since(before, stop[0]) > stop[1]:
                break
        self.weights_version += 1

    def step(
        self,
        batch: SampleBatch,
        *,
        scheduled: Mapping[str, float],
        objectives: Collection[str] | None = None,
        minibatches: int = 1,
    ) -> NDArray[np.float32]:
        """Trains on one or more minibatches in turn; on each, every loss that is due makes one update.

        Args:
            batch: Rows of experience [sequences, steps, ...], the same for all data-parallel learners.
            scheduled: Current values of scheduled settings by name, including learning rates.
            objectives: Names of the objectives to run; None for all. An objective's period
                `Objective.every` counts only the minibatches on which it was requested.
            minibatches: Number of minibatches into which the batch is split, each of consecutive rows.

        Returns:
            New priorities of the share's sequences; empty if the loss computes none, or with several minibatches.
        """
        self.last_batch = batch
        self.updates.totals.begin_update()
        settings = self.staging.settings(scheduled)
        rows, length = batch["valid"].shape
        size = rows // minibatches
        self.weights_version += minibatches
        self.sgd_steps += minibatches
        noise = [self.policy.draws(self.generator, size, length) for _ in range(minibatches)]
        if self._share[1] > 1:
            batch, noise, size = load_internal(SHARE_OF)(batch, noise, self._share)
        if self.updates.takes_rows and minibatches > 1 and not noise[0]:
            self.updates.step_through(Selection(batch, np.arange(rows).reshape(-1, size)), settings, objectives)
            return NO_PRIORITIES
        for number, drawn in enumerate(noise):
            own = batch if minibatches == 1 else batch.map(itemgetter(slice(number * size, (number + 1) * size)))
            columns = SampleBatch(own, **drawn)
            if self.updates.takes_rows:
                priorities = self.updates.step_through(Selection(columns), settings, objectives)
            else:
                priorities = self.updates.step(self.staging.batch(columns), settings, objectives).cpu().numpy()
        return priorities if minibatches == 1 else NO_PRIORITIES

    def gradients(self, batch: SampleBatch, *, scheduled: Mapping[str, float]) -> NDArray[np.float32]:
        """Computes the gradients of one minibatch without updating parameters, for another learner to apply.

        Args:
            batch: Rows of experience [sequences, steps, ...], one minibatch.
            scheduled: Current values of scheduled settings by name, including learning rates.

        Returns:
            Gradients and statistics of all losses, summed over valid steps, in one vector.
        """
        self.last_batch = batch
        draws = self.policy.draws(self.generator, *batch["valid"].shape)
        columns = self.staging.batch(SampleBatch(batch, **draws))
        return self.updates.gradients(columns, self.staging.settings(scheduled)).cpu().numpy()

    def apply_gradients(
        self, gradients: NDArray[np.float32], statistics: Mapping[str, Sequence[str]], *, scheduled: Mapping[str, float]
    ) -> None:
        """Updates the parameters with gradients that another learner computed.

        Args:
            gradients: Concatenated gradient sums of objectives. Each consists of the gradient, the values to assign to
                parameters and the statistics, all multiplied by a weight, followed by the weight.
            statistics: Names of the statistics in each sum, by the objective's name: another learner's
                `statistics_of_gradients`. Gradients of an objective without a loss have none.
            scheduled: Current values of scheduled settings by name, including learning rates.
        """
        self.sgd_steps += 1
        self.updates.totals.begin_update()
        received = torch.from_numpy(gradients.copy()).to(self.device)
        self.updates.apply_gradients(received, statistics, self.staging.settings(scheduled))
        self.weights_version += 1

    @property
    def statistics_of_gradients(self) -> dict[str, tuple[str, ...]]:
        """Names of the statistics that `gradients` returns for each loss, known after its first call."""
        return self.updates.statistics_of_gradients

    def evaluate(self, function: EvaluatedFunction, batch: SampleBatch) -> Any:
        """Evaluates a function of the network outputs on experience; returns arrays, or tensors if the batch has any.

        Args:
            function: Module-level function from outputs and batch to a tree of tensors, or a partial of one.
            batch: Rows of experience [sequences, steps, ...], with the noise columns that the function reads.

        Raises:
            ValueError: Other processes cannot import the function by its module and name.
        """
        require_picklable(function)
        stays = any(isinstance(column, Tensor) for column in batch.values())
        return self.updates.evaluated(function, self.staging.batch(batch), stays=stays)

    def last_statistics(self) -> dict[str, float]:
        """Returns the mean of each training statistic over the minibatches of the last update; waits for the device.

        An update is one call of `learn`, `step` or `apply_gradients`. The result is empty between `take_statistics` and
        the next update, as in a run that has just been restored.
        """
        return self.updates.totals.update_means()

    def take_statistics(self) -> dict[str, float]:
        """Returns the mean of each training statistic since the last call, and resets them."""
        return self.updates.take_statistics()

    def is_finite(self) -> bool:
        """Whether all parameters are finite: none is NaN or infinite."""
        return bool(torch.isfinite(self.parameters.flat).all())

    def flat(self) -> NDArray[np.float32]:
        """Returns a copy of all of the policy's parameters, as one flat vector."""
        return self.parameters.flat.cpu().numpy().copy()

    def acting_flat(self) -> NDArray[np.float32]:
        """Returns a copy of the parameters that rollout workers need for acting, as one flat vector."""
        return self._acting.numpy().copy() if self._acting.device.type == "cpu" else self._acting.cpu().numpy()

    def load_flat(self, flat: NDArray[np.float32]) -> None:
        """Replaces all of the policy's parameters with those in a flat vector, which is not modified."""
        self.parameters.flat.copy_(over_memory(flat))

    def target_outputs(self, batch: SampleBatch) -> NDArray[np.float32]:
        """Computes the target network's outputs [S, L, K] for S sequences of L steps of experience."""
        if self.parameters.target is None:
            raise RuntimeError("this learner keeps no target network")
        return self.updates.outputs(self.parameters.target, self.staging.batch(network_columns(batch)))

    def update_target(self, tau: float = 1.0, prefix: str = "") -> None:
        """Polyak update of the target network: target += tau * (parameters - target).

        Args:
            tau: Rate of the update; 1 is a hard update (copy).
            prefix: Prefix of the names of the parameters to update; "" for all.

        Raises:
            ValueError: No parameter's name begins with the prefix.
        """
        self.parameters.update_target(*self.policy.parameters.range_under(prefix), tau)

    def target(self) -> NDArray[np.float32] | None:
        """Returns a copy of the target network's parameters, as one flat vector; None without a target network."""
        return None if self.parameters.target is None else self.parameters.target.cpu().numpy().copy()

    def load_target(self, flat: NDArray[np.float32]) -> None:
        """Replaces the target network's parameters with those in a flat vector, which is not modified."""
        if self.parameters.target is not None:
            self.parameters.target.copy_(over_memory(flat))

    def optimizer_state(self) -> dict[str, NDArray[np.float32]]:
        """Returns the state of the optimizers for a checkpoint, as tensors named `<objective>/<part>`."""
        return self.updates.optimizer_state()

    def load_optimizer_state(self, named: Mapping[str, NDArray[np.float32]]) -> None:
        """Restores the optimizers from the dict that `optimizer_state()` returned."""
        self.updates.load_optimizer_state(named)

    def state(self) -> dict[str, Any]:
        """Returns the counters and the random state of minibatch shuffling, for a checkpoint."""
        return {
            "sgd_steps": self.sgd_steps,
            "weights_version": self.weights_version,
            "objectives": self.updates.counts.state(),
            "generator": dict(self.generator.bit_generator.state),  # JSON numbers and arrays
        }

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Restores counters and random state from the dict that `state()` returned."""
        self.adopt_state(state)
        self.weights_version = as_count(state["weights_version"])
        load_generator(self.generator, state["generator"])

    def adopt_state(self, state: Mapping[str, Any]) -> None:
        """Takes over the counters in another learner's `state()`, but not its random state."""
        self.sgd_steps = as_count(state["sgd_steps"])
        self.updates.counts.load_state(state["objectives"])

    def close(self) -> None:
        """Does nothing: this learner started no processes."""
