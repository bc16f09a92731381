"""The learner in this process: a policy's parameters under its objectives, on one device (torch)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rlrun.data.sample_batch import SampleBatch, network_columns
from rlrun.functional.saved_numbers import as_count, load_generator
from rlrun.learner.evaluation import demand_named, evaluated
from rlrun.learner.execution import Execution
from rlrun.learner.gradient_sums import GradientSums, split_sums
from rlrun.learner.learner import EvaluatedFunction
from rlrun.learner.minibatches import Passes, Selection, minibatches, selections_of
from rlrun.learner.objective import Objective, check_objectives
from rlrun.learner.objective_counts import ObjectiveCounts
from rlrun.learner.optimizers import OptimizerState
from rlrun.learner.reducer import Reducer
from rlrun.learner.staging import Staging, over_memory
from rlrun.learner.statistic_totals import StatisticTotals
from rlrun.learner.target_network import TargetNetwork
from rlrun.learner.update import (
    Parameters,
    Precision,
    Update,
    apply_sum,
    computed_in,
    fresh_state,
    measured_by,
)
from rlrun.learner.update_executor import UpdateExecutor
from rlrun.policy.policy import Policy


class LocalLearner:
    """Holds the flat parameter vector of one policy and moves it by minibatch SGD.

    Args:
        policy: The policy to learn; its present parameters are the first ones.
        objectives: What to minimise, in order.
        device: Torch's name of the device, `cpu` or `cuda`.
        update_executor: How updates are computed.
        identity: What determines the updates besides their objectives and shapes, or None if code outside of rlrun
            takes part.
        seed: Seed of the order of minibatches.
        microbatch_size: Steps whose gradient is computed at a time, to save memory; None for a whole minibatch.
        reducer: How it learns together with other learners, None if it learns alone.
        share: (i, n): of every minibatch it takes the i-th of n equal parts, from 0.
        precision: What the network's passes are computed in.
        has_target: Whether it keeps a target network.
        announce: Called with a sentence when something is about to take long.

    Attributes:
        policy: The policy it learns.
        objectives: What it minimises, in order.
        sgd_steps: Minibatches learned from.
        weights_version: Batches learned from.
        update_executor: How updates are computed; fixed for the whole run, since the bits differ.
        last_batch: What it learned from last, for a look at what went wrong; None before the first batch.

    Raises:
        ValueError: The objectives do not fit together, or not the policy; see `check_objectives`.
    """

    def __init__(
        self,
        policy: Policy,
        objectives: Sequence[Objective],
        *,
        device: str,
        update_executor: UpdateExecutor,
        identity: str | None,
        seed: int,
        microbatch_size: int | None = None,
        reducer: Reducer | None = None,
        share: tuple[int, int] = (0, 1),
        precision: Precision = "float32",
        has_target: bool = False,
        announce: Callable[[str], None] = lambda message: None,
    ) -> None:
        check_objectives(objectives, policy.parameters)
        self.policy = policy
        self.objectives = tuple(objectives)
        self.device = torch.device(device)
        self.update_executor = update_executor
        self.sgd_steps = 0
        self.weights_version = 0
        self.last_batch: SampleBatch | None = None
        self._reducer = reducer
        self._share = share
        self._precision = precision
        self._counts = ObjectiveCounts(self.objectives)
        self._generator = np.random.Generator(np.random.Philox(seed))
        self._flat = policy.parameters.gather(policy.module).to(self.device)
        self._target = TargetNetwork(policy.parameters, self._flat) if has_target else None
        policy.module.to(self.device)
        optimizer_is_here = reducer is None or not reducer.owns_optimizer
        self._states = {each.name: self._fresh(each) if optimizer_is_here else {} for each in self.objectives}
        self._execution = Execution(update_executor, identity, announce)
        self._updates: dict[tuple[str, ...], Update] = {}
        self._sums = GradientSums(
            policy,
            self.objectives,
            precision,
            self._execution,
            microbatch_size=microbatch_size,
            as_means=not optimizer_is_here,
        )
        self._in_parts = reducer is not None or microbatch_size is not None
        self._takes_rows = update_executor == "numpy" and not self._in_parts
        self._totals = StatisticTotals()
        self._staging = Staging(self.device)

    def _fresh(self, objective: Objective) -> OptimizerState:
        _, size = objective.range_in(self.policy.parameters)
        return fresh_state(objective.optimizer, size, self.device)

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
        """Runs epochs of minibatch SGD on a batch.

        All minibatches have one shape: the last of an epoch is filled up with empty rows, which weigh nothing.

        Args:
            batch: Rows of experience [S, L, ...].
            num_epochs: Passes over the batch.
            minibatch_size: Steps (rows times L) in a minibatch.
            scheduled: Present values of the settings that change over a run, by name; learning rates among them.
            stop: (name of a statistic, bound): no further epoch begins once its mean over an epoch lies above the
                bound.
            objectives: Names of the objectives that the batch is for, as in `step`; None for all.
        """
        self.last_batch = batch
        self._totals.begin_update()
        settings = self._staging.settings(scheduled)
        rows, length = batch["valid"].shape
        passes = Passes.over(rows, length, minibatch_size, self._share)
        columns = self._staging.batch(batch, spare=passes.spare)
        cut = selections_of(columns) if self._takes_rows else partial(minibatches, columns)
        for _ in range(num_epochs):
            order = self._staging.order(passes.order(self._generator))
            before = self._totals.total_of(stop[0]) if stop else None
            for minibatch in cut(order, passes.own_size):
                self._step(minibatch, settings, objectives)
            if stop is not None and before is not None:
                total, count = self._totals.total_of(stop[0])
                if (total - before[0]) / (count - before[1]) > stop[1]:
                    break
        self.weights_version += 1

    def step(
        self, batch: SampleBatch, *, scheduled: Mapping[str, float], objectives: Collection[str] | None = None
    ) -> NDArray[np.float32]:
        """Learns from one minibatch as it is.

        Args:
            batch: Rows of experience [S, L, ...].
            scheduled: Present values of the settings that change over a run, by name; learning rates among them.
            objectives: Names of the objectives that the minibatch is for; None for all. `Objective.every` counts the
                minibatches that were for the objective.

        Returns:
            What the loss says of how much is to be learned from each row still, [S]; empty if it says nothing.
        """
        self.last_batch = batch
        self._totals.begin_update()
        priorities = self._step(self._staged(batch), self._staging.settings(scheduled), objectives)
        self.weights_version += 1
        return priorities.cpu().numpy()

    def gradients(self, batch: SampleBatch, *, scheduled: Mapping[str, float]) -> NDArray[np.float32]:
        """Returns what `apply_gradients` of another learner moves its parameters by.

        Args:
            batch: Rows of experience [S, L, ...]; all of them make one minibatch.
            scheduled: Present values of the settings that change over a run, by name; learning rates among them.

        Returns:
            The gradient sums of the objectives with a loss one after another, each as `GradientSum` makes it.
        """
        self.last_batch = batch
        learned = [objective for objective in self.objectives if objective.loss is not None]
        columns, settings = self._staged(batch), self._staging.settings(scheduled)
        sums = [total for _, total in self._sums.over(learned, columns, self._parameters(), settings)]
        return torch.cat(sums).cpu().numpy()

    def apply_gradients(
        self, gradients: NDArray[np.float32], statistics: Mapping[str, Sequence[str]], *, scheduled: Mapping[str, float]
    ) -> None:
        """Moves the parameters by gradients from elsewhere: what another learner's `gradients` returned, or one's own.

        Args:
            gradients: Gradient sums of objectives one after another: gradient, values to assign and statistics, all
                times a weight, and the weight behind them.
            statistics: By the names of these objectives the names of the statistics in their sums: another learner's
                `statistics_of_gradients`; none for the gradients of an objective without a loss.
            scheduled: Present values of the settings that change over a run, by name; learning rates among them.
        """
        settings = self._staging.settings(scheduled)
        received = torch.from_numpy(gradients.copy()).to(self.device)
        self.sgd_steps += 1
        self._totals.begin_update()
        for objective, total in split_sums(self.policy, self.objectives, received, statistics):
            self._apply(objective, total, tuple(statistics[objective.name]), settings)
        self.weights_version += 1

    @property
    def statistics_of_gradients(self) -> dict[str, tuple[str, ...]]:
        """Names of the statistics that travel with each objective's gradient, known after the first `gradients`."""
        return self._sums.statistics

    def _staged(self, batch: SampleBatch) -> SampleBatch:
        """Returns a minibatch on the device, with the noise that losses take."""
        draws = self.policy.draws(self._generator, *batch["valid"].shape)
        return self._staging.batch(SampleBatch(batch, **draws))

    def _step(
        self,
        batch: SampleBatch | Selection,
        settings: Mapping[str, Tensor],
        objectives: Collection[str] | None = None,
    ) -> Tensor:
        """Moves the parameters by one minibatch and returns its rows' priorities; nothing waits for the device."""
        due = self._counts.due(objectives)
        self.sgd_steps += 1
        if self._in_parts:
            assert isinstance(batch, SampleBatch)
            for objective, total in self._sums.over(due, batch, self._parameters(), settings):
                self._apply(objective, total, self._sums.statistics[objective.name], settings)
            return self._flat[:0]
        if not due:
            return self._flat[:0]
        names = tuple(objective.name for objective in due)
        if names not in self._updates:
            several = len(self.objectives) > 1
            self._updates[names] = Update(self.policy, due, self._precision, names_objectives=several)
        update = self._updates[names]
        states = [self._states[name] for name in names]
        parameters = self._parameters()
        if isinstance(batch, Selection):
            (measured,) = self._execution.of_rows(update, parameters, states, batch, settings)
        else:
            (measured,) = self._execution(update, parameters, states, batch, settings)
        number = len(update.statistics)
        self._totals.add(update.statistics, measured[:number])
        return measured[number:]

    def _apply(
        self, objective: Objective, total: Tensor, statistics: tuple[str, ...], settings: Mapping[str, Tensor]
    ) -> None:
        """Moves an objective's parameters by a gradient sum, and counts its statistics."""
        move = apply_sum if self._reducer is None else self._reducer
        measured = move(self.policy, objective, self._flat, self._states[objective.name], total, settings)
        is_alone = len(self.objectives) == 1
        self._totals.add(
            tuple(objective.statistic(name, is_alone=is_alone) for name in measured_by(objective, statistics)), measured
        )

    def _parameters(self) -> Parameters:
        return Parameters(self._flat, None if self._target is None else self._target.flat)

    def evaluate(self, function: EvaluatedFunction, batch: SampleBatch) -> Any:
        """Returns what a function of the policy's outputs gives on rows of experience, as a tree of NumPy arrays.

        Args:
            function: A function of a module, from outputs and batch to a tree of tensors; it runs without gradients.
            batch: Rows of experience [S, L, ...], with whatever noise the function takes.

        Raises:
            ValueError: The function is not found by its module and name.
        """
        demand_named(function)
        return evaluated(self.policy, self._parameters(), self._precision, function, self._staging.batch(batch))

    def last_statistics(self) -> dict[str, float]:
        """Returns the means of all statistics over the minibatches of the last update; waits for the device.

        An update is one call of `learn`, `step` or `apply_gradients`. Nothing is returned after `take_statistics` and
        before the next update, as in a run that has just been restored.
        """
        return self._totals.of_update()

    def take_statistics(self) -> dict[str, float]:
        """Returns the means of all statistics since the last call, and starts them afresh."""
        return self._totals.take()

    def is_finite(self) -> bool:
        """Whether all parameters are finite numbers."""
        return bool(torch.isfinite(self._flat).all())

    def flat(self) -> NDArray[np.float32]:
        """Returns a copy of all parameters, [P]."""
        return self._flat.cpu().numpy().copy()

    def acting_flat(self) -> NDArray[np.float32]:
        """Returns a copy of the parameters that act, [A]: the slice that `Policy.acting_range` names."""
        start, size = self.policy.acting_range
        return self._flat[start : start + size].cpu().numpy().copy()

    def load_flat(self, flat: NDArray[np.float32]) -> None:
        """Loads parameters [P], also from a view into the object store."""
        self._flat.copy_(over_memory(flat))

    def target_outputs(self, batch: SampleBatch) -> NDArray[np.float32]:
        """Returns what the target network puts out for rows [S, L], as [S, L, K]."""
        if self._target is None:
            raise RuntimeError("this learner keeps no target network")
        needed = self._staging.batch(network_columns(batch))
        with torch.no_grad(), computed_in(self._precision, self.device):
            outputs = self.policy.outputs(self.policy.parameters.views(self._target.flat), needed)
        found: NDArray[np.float32] = outputs.distribution.outputs.cpu().numpy()
        return found

    def update_target(self, tau: float = 1.0, prefix: str = "") -> None:
        """Moves the target network's parameters by a fraction of their distance to the present ones; 1 copies them.

        Args:
            tau: The fraction.
            prefix: Of the names of the parameters that move; "" for all.
        """
        if self._target is not None:
            self._target.update(self._flat, tau, prefix)

    def target(self) -> NDArray[np.float32] | None:
        """Returns a copy of the target network's parameters, [P], None if there is none."""
        return None if self._target is None else self._target.copied()

    def load_target(self, flat: NDArray[np.float32]) -> None:
        """Loads the target network's parameters [P]."""
        if self._target is not None:
            self._target.load(flat)

    def optimizer_state(self) -> dict[str, NDArray[np.float32]]:
        """Returns the optimizers' tensors as `<objective>/<part>`, for a checkpoint."""
        return {
            f"{name}/{part}": tensor.cpu().numpy().copy()
            for name, state in self._states.items()
            for part, tensor in state.items()
        }

    def load_optimizer_state(self, named: Mapping[str, NDArray[np.float32]]) -> None:
        """Loads what `optimizer_state` returned."""
        for name, state in self._states.items():
            for part, tensor in state.items():
                tensor.copy_(torch.from_numpy(np.array(named[f"{name}/{part}"])))

    def state(self) -> dict[str, Any]:
        """Returns counters and the state of the minibatch order."""
        return {
            "sgd_steps": self.sgd_steps,
            "weights_version": self.weights_version,
            "objectives": self._counts.state(),
            "generator": dict(self._generator.bit_generator.state),  # JSON numbers and arrays
        }

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Loads what `state` returned."""
        self.adopt_state(state)
        self.weights_version = as_count(state["weights_version"])
        load_generator(self._generator, state["generator"])

    def adopt_state(self, state: Mapping[str, Any]) -> None:
        """Adopts the counters of another learner's `state`; its own draws go on."""
        self.sgd_steps = as_count(state["sgd_steps"])
        # Older checkpoints have no counts of objectives, or not of all; these were asked about every minibatch.
        every_one = dict.fromkeys(self._counts.state(), self.sgd_steps)
        self._counts.load_state({**every_one, **state.get("objectives", {})})

    def close(self) -> None:
        """Ends nothing: it lives in this process."""
