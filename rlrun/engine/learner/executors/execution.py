"""Execution of a learner's computations: eager torch, NumPy or C kernels, compiled machine code, or CUDA graphs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.data.tree import map_tree, named_leaves
from rlrun.engine.kernels.steps import NoKernel, ReadByPython
from rlrun.engine.learner.executors.c_update import CUpdate, in_c
from rlrun.engine.learner.executors.numpy_update import NumpyUpdate, in_numpy, require_same
from rlrun.engine.learner.executors.update_executor import UpdateExecutor
from rlrun.engine.learner.minibatches import Selection
from rlrun.engine.learner.optimizers import OptimizerState
from rlrun.engine.learner.statistic_totals import StatisticTotals
from rlrun.engine.learner.update import Computation, Parameters
from rlrun.engine.messages.silent_message import SEPARATE_OPERATIONS, SilentMessage
from rlrun.engine.settings.registry import load_internal

if TYPE_CHECKING:
    from rlrun.engine.kernels.cuda_graphs import Graphs
    from rlrun.engine.learner.executors.compilation import CompiledUpdate


TRANSLATIONS = {
    "captured": "rlrun.engine.kernels.cuda_graphs:CapturedFunction",
    "compiled": "rlrun.engine.learner.executors.compilation:compiled",
    "graphs": "rlrun.engine.kernels.cuda_graphs:Graphs",
}
"""Import paths of translations that only some machines and precisions use."""


class Execution:
    """Runs a learner's computations, either directly in torch or after one translation per minibatch shape.

    Args:
        update_executor: Backend that runs the computations.
        runs_users_code: Whether users' code is involved, which is then checked for dependence on Python state.
        announce: Callback that receives a message before a slow operation, such as compilation.

    Attributes:
        graphs: CUDA graphs of the computations, and of the policy's steps if a worker acts on the learner's device;
            None with other executors.
    """

    def __init__(
        self, update_executor: UpdateExecutor, announce: Callable[[str], None], *, runs_users_code: bool
    ) -> None:
        self._update_executor = update_executor
        self._runs_users_code = runs_users_code
        self._announce = announce
        self._made: dict[tuple[object, ...], CompiledUpdate | None] = {}  # None: runs eagerly
        self._without_kernel: set[str] = set()
        self._scheduled: tuple[Mapping[str, Tensor], list[Tensor]] = ({}, [])
        self.graphs: Graphs | None = None
        if update_executor == "cuda_graph":
            self.graphs = load_internal(TRANSLATIONS["graphs"])(announce)

    def __call__(
        self,
        computation: Computation,
        parameters: Parameters,
        states: Sequence[OptimizerState],
        batch: SampleBatch,
        scheduled: Mapping[str, Tensor],
    ) -> Sequence[Tensor]:
        """Runs a computation on a minibatch.

        Args:
            computation: Update or gradient computation to run.
            parameters: Online and target parameters.
            states: Optimizer states by objective, if the computation updates parameters.
            batch: A minibatch, columns [sequences, steps, ...].
            scheduled: Current values of scheduled settings (learning rate, coefficients) by name, each a scalar.
        """
        if self._update_executor == "eager":
            return computation(parameters, states, batch, scheduled)
        arguments = flattened_arguments(parameters, states, batch, scheduled)
        key = (computation.name, batch["valid"].shape, tuple(batch))
        translate = partial(self._translated, computation, parameters, states, batch, scheduled, arguments)
        made: CompiledUpdate | None
        if self.graphs is not None:
            made = self.graphs.made(key, translate, "updates")
        else:
            if key not in self._made:
                self._made[key] = self._unless_lacking(translate)
            made = self._made[key]
        return computation(parameters, states, batch, scheduled) if made is None else made(arguments)

    @property
    def outside_kernels(self) -> str:
        """Reason why results depend on the processor; "" if everything was computed by C kernels without the BLAS."""
        if any(not isinstance(made, CUpdate) for made in self._made.values()):
            return "updates contain an operation without a C kernel"
        if any(isinstance(made, CUpdate) and made.uses_blas for made in self._made.values()):
            return "updates contain a product so large that the BLAS computes it"
        return ""

    def _translated(
        self,
        computation: Computation,
        parameters: Parameters,
        states: Sequence[OptimizerState],
        batch: SampleBatch,
        scheduled: Mapping[str, Tensor],
        arguments: Sequence[Tensor],
    ) -> Any:
        """Translates a computation for minibatches like `batch`.

        Raises:
            NoKernel: The executor lacks an operation, or users' code depends on more than its arguments.
        """
        function = traceable(computation, states, batch, scheduled, has_target=parameters.target is not None)
        if self._update_executor == "compiled":
            return load_internal(TRANSLATIONS["compiled"])(function, arguments, self._announce)
        if self._runs_users_code:
            require_same(function, arguments)
        num_kept = len(flattened_arguments(parameters, states, {}, {}))  # the learner's tensors stay the same
        if self.graphs is not None:
            return load_internal(TRANSLATIONS["captured"])(function, arguments, num_kept)
        translate = in_c if self._update_executor == "c" else in_numpy
        return translate(function, arguments, num_kept)

    def _unless_lacking(self, translate: Callable[[], CompiledUpdate]) -> CompiledUpdate | None:
        """Returns the result of a translation; None if an operation has no kernel, which is reported only once."""
        try:
            return translate()
        except NoKernel as operation:
            if str(operation) not in self._without_kernel:
                backend = "in C kernels" if self._update_executor == "c" else "in NumPy"
                lacking = "there is none for" if self._update_executor == "c" else "there is no kernel for"
                reason = operation if isinstance(operation, ReadByPython) else f"{lacking} {operation}"
                told = f"{SEPARATE_OPERATIONS}, not {backend}, because {reason}"
                self._announce(SilentMessage(told))
                self._without_kernel.add(str(operation))
            return None

    def made(self, computation: Computation, shape: tuple[int, int], columns: tuple[str, ...]) -> CompiledUpdate | None:
        """Returns the translation of a computation for minibatches of S rows and L steps; None if there is none yet.

        Args:
            computation: Update or gradient computation.
            shape: S and L.
            columns: Names of the minibatches' columns, in order.
        """
        return self._made.get((computation.name, shape, columns))

    def others(self, scheduled: Mapping[str, Tensor]) -> list[Tensor]:
        """Returns the scheduled settings as arguments of a computation; the same mapping gives the same list object."""
        if self._scheduled[0] is not scheduled:
            self._scheduled = scheduled, [scheduled[name] for name in sorted(scheduled)]
        return self._scheduled[1]

    def run_minibatches(
        self,
        computation: Computation,
        parameters: Parameters,
        states: Sequence[OptimizerState],
        selection: Selection,
        numbers: range,
        scheduled: Mapping[str, Tensor],
        totals: StatisticTotals,
    ) -> NDArray[np.float32]:
        """Runs a parameter update on one minibatch after another; kernels gather only the columns that they read.

        Args:
            computation: Update to run.
            parameters: Online and target parameters.
            states: Optimizer states by name of the loss's `Objective`.
            selection: Batch, and the rows that form each minibatch.
            numbers: Indices of the minibatches on which to run the computation, one or more.
            scheduled: Current values of scheduled settings by name, each a scalar.
            totals: Running totals, to which each minibatch's statistics are added.

        Returns:
            The computation's results for the last minibatch, without the statistics.
        """
        others = self.others(scheduled)
        for number in numbers:
            made = self.made(computation, selection.shape, selection.names)
            if isinstance(made, CUpdate):
                rows = None if selection.rows is None else selection.rows[number : numbers.stop]
                total = totals.to_add(computation.statistics, numbers.stop - number)
                return made.run_minibatches(selection.leaves, rows, others, total)
            if isinstance(made, NumpyUpdate):
                rows = None if selection.rows is None else selection.rows[number]
                (measured,) = made.run_rows(selection.leaves, rows, others)
            else:
                (measured,) = self(computation, parameters, states, selection.gathered(number), scheduled)
            totals.add(computation.statistics, measured[: len(computation.statistics)])
        return measured[len(computation.statistics) :].numpy()


def flattened_arguments(
    parameters: Parameters,
    states: Sequence[OptimizerState],
    batch: Mapping[str, Any],
    scheduled: Mapping[str, Tensor],
) -> list[Tensor]:
    """Flattens the arguments of a computation (parameters, states, batch, settings) into one list of tensors."""
    tensors = [parameters.flat]
    tensors += [] if parameters.target is None else [parameters.target]
    for state in states:
        tensors += state.values()
    tensors += [leaf for _, leaf in named_leaves(dict(batch))]
    return tensors + [scheduled[name] for name in sorted(scheduled)]


def traceable(
    update: Computation,
    states: Sequence[OptimizerState],
    batch: Mapping[str, Any],
    scheduled: Mapping[str, Tensor],
    *,
    has_target: bool = False,
) -> Any:
    """Wraps a computation as a function of one flat list of tensors, so that it can be traced.

    Args:
        update: Computation to wrap.
        states: Example optimizer states, with the final structure.
        batch: An example minibatch, with the final structure.
        scheduled: Example scheduled settings, with the final names.
        has_target: Whether there is a target network.
    """

    def function(*tensors: Tensor) -> list[Tensor]:
        arguments = iter(tensors)
        parameters = Parameters(next(arguments), next(arguments) if has_target else None)
        given = [{part: next(arguments) for part in state} for state in states]
        columns = SampleBatch({name: map_tree(lambda _: next(arguments), tree) for name, tree in batch.items()})
        return update(parameters, given, columns, {name: next(arguments) for name in sorted(scheduled)})

    return function
