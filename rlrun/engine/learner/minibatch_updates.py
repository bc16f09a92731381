"""Parameter updates on single minibatches, by losses and their optimizers, with statistics (torch)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cached_property
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.data.tree import map_tree
from rlrun.engine.functional.saved_numbers import as_count
from rlrun.engine.learner.executors.execution import Execution
from rlrun.engine.learner.executors.update_executor import UpdateExecutor
from rlrun.engine.learner.minibatches import Selection
from rlrun.engine.learner.objective import Objective
from rlrun.engine.learner.optimizers import OptimizerState
from rlrun.engine.learner.output_functions import evaluated, network_outputs
from rlrun.engine.learner.statistic_totals import StatisticTotals
from rlrun.engine.learner.update import Parameters, Precision, Update, apply_sum, fresh_state, measured_by
from rlrun.engine.policy.policy import Policy
from rlrun.engine.settings.registry import load_internal

if TYPE_CHECKING:
    from rlrun.engine.learner.adaptive_rates import AdaptiveRates
    from rlrun.engine.learner.gradient_sums import GradientSums
    from rlrun.engine.learner.learner import AllReduceTensor, EvaluatedFunction


NO_PRIORITIES = np.zeros(0, np.float32)


SUMS = {
    "sums": "rlrun.engine.learner.gradient_sums:GradientSums",
    "split": "rlrun.engine.learner.gradient_sums:split_sums",
    "rates": "rlrun.engine.learner.adaptive_rates:AdaptiveRates",
}
"""Import paths of gradient sums and adaptive learning rates, which only some updates need."""


class MinibatchUpdates:
    """Updates a policy's parameters minibatch by minibatch, with the losses that are due on each.

    Args:
        policy: Policy to train.
        objectives: Losses with their parameters and optimizers, in the order in which they run.
        parameters: Online and target parameters, which updates change in place.
        update_executor: Backend of the updates.
        runs_users_code: Whether updates run users' code, such as a custom network.
        microbatch_size: Steps per microbatch; None for a whole minibatch.
        all_reduce: Sums gradients over data-parallel learners; None for a single learner.
        precision: Floating-point precision of the networks' forward and backward passes.
        announce: Callback that receives a message before a slow operation, such as compilation.

    Attributes:
        counts: Number of minibatches that each objective has seen.
        totals: Training statistics, summed over minibatches.
        execution: Backend that runs the updates.
        takes_rows: Whether the caller should pass minibatches as selected rows to `step_through`, rather than one by
            one to `step`.
        rates: Adaptive learning rates; None if no objective has one.
    """

    def __init__(
        self,
        policy: Policy,
        objectives: Sequence[Objective],
        parameters: Parameters,
        *,
        update_executor: UpdateExecutor,
        runs_users_code: bool,
        microbatch_size: int | None,
        all_reduce: AllReduceTensor | None,
        precision: Precision,
        announce: Callable[[str], None],
    ) -> None:
        self.counts = ObjectiveCounts(objectives)
        self.totals = StatisticTotals()
        self._policy = policy
        self._objectives = objectives
        self._parameters = parameters
        self._all_reduce = all_reduce
        self._precision = precision
        self._states: dict[str, OptimizerState] = {}
        for each in objectives:
            _, size = each.range_in(policy.parameters)
            self._states[each.name] = fresh_state(each.optimizer, size, parameters.flat.device)
        self.execution = Execution(update_executor, announce, runs_users_code=runs_users_code)
        self._updates: dict[tuple[int, ...], tuple[Update, list[OptimizerState]]] = {}  # by ids of the objectives
        self._has_evaluated = False
        self._microbatch_size = microbatch_size
        self._in_parts = all_reduce is not None or microbatch_size is not None
        self.takes_rows = update_executor in ("numpy", "c") and not self._in_parts
        self.rates: AdaptiveRates | None = None
        if any(each.adaptive_lr is not None for each in objectives):
            self.rates = load_internal(SUMS["rates"])(objectives, self.totals, parameters.flat.device)

    @cached_property
    def _sums(self) -> GradientSums:
        """Returns the gradient sums, for updates in parts and for learners that only compute gradients."""
        made: GradientSums = load_internal(SUMS["sums"])(
            self._policy,
            self._objectives,
            self._precision,
            self.execution,
            microbatch_size=self._microbatch_size,
        )
        return made

    @property
    def adapts_after_epochs(self) -> bool:
        """Whether a learning rate adapts after each epoch, so that epochs must be run one by one."""
        return self.rates is not None and not self.rates.adapts_after_minibatches

    @property
    def adapts_after_minibatches(self) -> bool:
        """Whether a learning rate adapts after each minibatch, so that minibatches must be run one by one."""
        return self.rates is not None and self.rates.adapts_after_minibatches

    def applied(self, settings: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """Returns the scheduled settings with the current values of adaptive learning rates."""
        return settings if self.rates is None else self.rates.applied(settings)

    def begin_update(self) -> None:
        """Marks the start of an update, for statistics and for adaptive learning rates."""
        self.totals.begin_update()
        if self.rates is not None:
            self.rates.begin_update()

    def end_epoch(self) -> None:
        """Marks the end of an epoch, after which learning rates may adapt."""
        if self.rates is not None:
            self.rates.adapt("epoch")

    def take_statistics(self) -> dict[str, float]:
        """Returns the mean of each statistic since the last call, and current adaptive learning rates."""
        rates = {} if self.rates is None else self.rates.rates
        lr = {each.lr: float(rates[each.name]) for each in self._objectives if each.name in rates}
        return {**self.totals.take(), **lr}

    def step(
        self, batch: SampleBatch, settings: Mapping[str, Tensor], objectives: Collection[str] | None = None
    ) -> Tensor:
        """Starts the update on one minibatch without waiting for the device; returns new replay priorities.

        Args:
            batch: A minibatch on the device, columns [sequences, steps, ...].
            settings: Current values of scheduled settings by name, each a scalar.
            objectives: Names of the objectives to run; None for all.
        """
        due = self.counts.due(objectives)
        settings = self.applied(settings)
        if self._in_parts:
            priorities = self._parameters.flat[:0]
            for objective, total, found in self._sums.over(due, batch, self._parameters, settings):
                self._apply(objective, total, self._sums.statistics[objective.name], settings)
                priorities = found if len(found) else priorities
            self.adapt()
            return priorities
        if not due:
            return self._parameters.flat[:0]
        update, states = self.update_of(due)
        (measured,) = self.execution(update, self._parameters, states, batch, settings)
        number = len(update.statistics)
        self.totals.add(update.statistics, measured[:number])
        self.adapt()
        return measured[number:]

    def adapt(self) -> None:
        """Adapts learning rates after a minibatch."""
        if self.rates is not None:
            self.rates.adapt("minibatch")

    def step_through(
        self, selection: Selection, settings: Mapping[str, Tensor], objectives: Collection[str] | None
    ) -> NDArray[np.float32]:
        """Updates the parameters on several minibatches in turn.

        Consecutive minibatches on which the same losses are due are executed together.

        Args:
            selection: A batch, with the indices of the rows that form each minibatch.
            settings: Current values of scheduled settings by name, each a scalar.
            objectives: Names of the objectives to run; None for all.

        Returns:
            New replay priorities of the last minibatch on which an objective was due; empty if there are none.
        """
        return self.run_due([self.counts.due(objectives) for _ in range(selection.number)], selection, settings)

    def run_due(
        self, due: Sequence[tuple[Objective, ...]], selection: Selection, settings: Mapping[str, Tensor]
    ) -> NDArray[np.float32]:
        """Updates the parameters as `step_through` does, with the objectives that are due on each minibatch."""
        priorities = NO_PRIORITIES
        for present, run in groupby(range(len(due)), key=due.__getitem__):
            numbers = list(run)
            if not present:
                continue
            update, states = self.update_of(present)
            together, runs = range(numbers[0], numbers[-1] + 1), [range(numbers[0], numbers[-1] + 1)]
            if self.adapts_after_minibatches:
                runs = [range(number, number + 1) for number in together]
            for each in runs:
                priorities = self.execution.run_minibatches(
                    update, self._parameters, states, selection, each, self.applied(settings), self.totals
                )
                self.adapt()
        return priorities

    def evaluated(self, function: EvaluatedFunction, batch: SampleBatch, *, stays: bool) -> Any:
        """Evaluates a function of the policy's network outputs on a batch that is on the device, without gradients.

        Args:
            function: Function from outputs and batch to a tree of tensors.
            batch: Rows of experience.
            stays: Whether the result stays on the device; otherwise it is copied to NumPy arrays.
        """
        self._has_evaluated = True
        found = evaluated(self._policy, self._parameters, self._precision, function, batch)
        return found if stays else map_tree(lambda leaf: leaf.cpu().numpy().copy(), found)

    def outputs(self, flat: Tensor, batch: SampleBatch) -> NDArray[np.float32]:
        """Computes the outputs [S, L, K] of the policy's network with the parameters in `flat`, without gradients."""
        self._has_evaluated = True
        return network_outputs(self._policy, flat, self._precision, batch)

    @property
    def outside_kernels(self) -> str:
        """Reason why updates depend on the processor; "" if C kernels without the BLAS compute all losses."""
        if self._has_evaluated:
            return "the dataflow evaluates networks in torch"
        if self._in_parts:
            return "gradients are sums over microbatches or learners"
        run = {objective.name for update, _ in self._updates.values() for objective in update.objectives}
        if any(each.loss is not None and each.name not in run for each in self._objectives):
            return "not all losses have been computed yet"
        return self.execution.outside_kernels

    def gradients(self, batch: SampleBatch, settings: Mapping[str, Tensor]) -> Tensor:
        """Returns gradients and statistics of all losses on a minibatch, in one vector, without updating parameters.

        Args:
            batch: A minibatch on the device, columns [sequences, steps, ...].
            settings: Current values of scheduled settings by name, each a scalar.
        """
        learned = [objective for objective in self._objectives if objective.loss is not None]
        return torch.cat([total for _, total, _ in self._sums.over(learned, batch, self._parameters, settings)])

    @property
    def statistics_of_gradients(self) -> dict[str, tuple[str, ...]]:
        """Names of the statistics that `gradients` returns for each loss, known after its first call."""
        return self._sums.statistics

    def apply_gradients(
        self, gradients: Tensor, statistics: Mapping[str, Sequence[str]], settings: Mapping[str, Tensor]
    ) -> None:
        """Updates the parameters with a vector of gradients and statistics that another learner computed.

        Args:
            gradients: Concatenated gradient sums, on the device.
            statistics: Names of the statistics in each sum, by the objective's name.
            settings: Current values of scheduled settings by name, each a scalar.
        """
        for objective, total in load_internal(SUMS["split"])(self._policy, self._objectives, gradients, statistics):
            self._apply(objective, total, tuple(statistics[objective.name]), settings)

    def optimizer_state(self) -> dict[str, NDArray[np.float32]]:
        """Returns the state of the optimizers for a checkpoint, as tensors named `<objective>/<part>`."""
        return {
            f"{name}/{part}": tensor.cpu().numpy().copy()
            for name, state in self._with_rates().items()
            for part, tensor in state.items()
        }

    def _with_rates(self) -> dict[str, OptimizerState]:
        """Returns the optimizers' states by objective, with adaptive learning rates as the part `lr`."""
        rates = {} if self.rates is None else self.rates.rates
        return {
            name: {**state, **({"lr": rates[name]} if name in rates else {})} for name, state in self._states.items()
        }

    def load_optimizer_state(self, named: Mapping[str, NDArray[np.float32]]) -> None:
        """Restores the optimizers from the dict that `optimizer_state()` returned."""
        for name, state in self._with_rates().items():
            for part, tensor in state.items():
                tensor.copy_(torch.from_numpy(np.array(named[f"{name}/{part}"])))

    def update_of(self, due: Sequence[Objective]) -> tuple[Update, list[OptimizerState]]:
        """Returns the update for some objectives, and their optimizers' states."""
        key = tuple(map(id, due))
        if key not in self._updates:
            several = len(self._objectives) > 1
            update = Update(self._policy, due, self._precision, names_objectives=several)
            self._updates[key] = update, [self._states[objective.name] for objective in due]
        return self._updates[key]

    def _apply(
        self, objective: Objective, total: Tensor, statistics: tuple[str, ...], settings: Mapping[str, Tensor]
    ) -> None:
        """Updates an objective's parameters with a gradient sum, and accumulates the objective's statistics."""
        if self._all_reduce is not None:
            total = self._all_reduce(total)
        state = self._states[objective.name]
        measured = apply_sum(self._policy, objective, self._parameters.flat, state, total, settings)
        is_alone = len(self._objectives) == 1
        self.totals.add(
            tuple(objective.statistic(name, is_alone=is_alone) for name in measured_by(objective, statistics)), measured
        )


class ObjectiveCounts:
    """Counts the minibatches of each objective (loss) of a learner, and decides which objectives are due.

    An objective is due on every `Objective.every`-th of its minibatches.

    Args:
        objectives: The learner's objectives, in order.
    """

    def __init__(self, objectives: Sequence[Objective]) -> None:
        self._objectives = tuple(each for each in objectives if each.loss is not None)
        self._asked = {objective.name: 0 for objective in self._objectives}
        self._are_always_due = all(objective.every == 1 for objective in self._objectives)
        self._some_need_others = any(objective.needs for objective in self._objectives)
        self._complete: set[tuple[int, ...]] = set()  # sets of objectives, by ids, that need no others

    def due(self, names: Collection[str] | None = None) -> tuple[Objective, ...]:
        """Counts one minibatch, and returns the objectives that run on it, in order.

        Args:
            names: Names of the objectives requested for the minibatch; None for all that have a loss.

        Raises:
            ValueError: A name matches no objective with a loss; or a due objective needs tensors of an objective that
                is not due.
        """
        if names is not None and (unknown := set(names) - set(self._asked)):
            raise ValueError(f"no objective with a loss is named {', '.join(sorted(unknown))}")
        asked = self._objectives if names is None else tuple([each for each in self._objectives if each.name in names])
        due = asked
        if not self._are_always_due:
            due = tuple([each for each in asked if self._asked[each.name] % each.every == 0])
        if self._some_need_others and (key := tuple(map(id, due))) not in self._complete:
            _require_needed(due)
            self._complete.add(key)
        for each in asked:
            self._asked[each.name] += 1
        return due

    def state(self) -> dict[str, int]:
        """Returns the number of minibatches seen by each objective, for a checkpoint."""
        return dict(self._asked)

    def load_state(self, state: Mapping[str, int]) -> None:
        """Restores the counters from the dict that `state()` returned."""
        self._asked = {name: as_count(state[name]) for name in self._asked}


def _require_needed(due: Sequence[Objective]) -> None:
    """Raises a ValueError if an objective that is due needs tensors of one that is not."""
    present = {each.name for each in due}
    for objective in due:
        if missing := [name for name in objective.needs if name not in present]:
            raise ValueError(
                f"objective {objective.name} needs the results of objective {missing[0]}, which does not run in this "
                "update"
            )
