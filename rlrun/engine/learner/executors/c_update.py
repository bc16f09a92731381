"""Execution of parameter updates in C: a traced update becomes a list of C kernels, run in one call."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rlrun.engine.kernels.library import required_library
from rlrun.engine.kernels.steps import COLUMN, Array, StepTable, address, pointer
from rlrun.engine.learner.executors.numpy_update import BoundUpdate, recorded

LONGEST_CALL_S = 1.0
"""Maximum duration of a call into C in seconds; signals are handled only after the call."""

NOTHING_TO_GATHER = (None, ctypes.c_int64(0), None, ctypes.c_int64(0), ctypes.c_int64(1))
"""Arguments of `run` in `kernels.c` for one minibatch that is already in the update's arrays: columns and rows."""


def in_c(function: Callable[..., list[Tensor]], arguments: Sequence[Tensor], num_kept: int = 0) -> CUpdate:
    """Translates a parameter update, written in torch, into a list of C kernels.

    Args:
        function: Update as a function of tensors, without data-dependent control flow.
        arguments: Example tensors, with the shapes and dtypes of later calls; not modified.
        num_kept: Number of leading arguments that are the same tensor objects in every call, such as the parameters.

    Raises:
        NoKernel: An operation has no kernel; the message names it.
    """
    return CUpdate(BoundUpdate(recorded(function, arguments), arguments, num_kept))


class CUpdate:
    """Parameter update that runs as a list of C kernels, for one or many minibatches per call.

    Args:
        bound: The update as NumPy calls with their arrays, from which kernels are chosen.

    Attributes:
        bound: The update as NumPy calls with their arrays.
        steps: The table of kernels.
        uses_blas: Whether NumPy's BLAS computes any product, so that results depend on the processor.

    Raises:
        NoKernel: There is no C kernel for one of the calls.
        CompilerMissing: The kernels cannot be used on this machine.
    """

    def __init__(self, bound: BoundUpdate) -> None:
        self.bound = bound  # keeps alive the arrays that the table points to
        self._library = required_library("updates of this run are computed", "learns")
        self.steps = StepTable(self._library, bound.calls)
        self.uses_blas = self.steps.uses_blas
        self._results = pointer(bound.results[0])
        self._in_one_call = 1

    def __call__(self, arguments: Sequence[Tensor]) -> list[Tensor]:
        """Runs the update, which modifies tensors in place as the traced function does."""
        self.bound.filled_with = None
        for i, array in self.bound.read:
            np.copyto(array, arguments[i].numpy())
        self._library.run(*self.steps.arguments, *NOTHING_TO_GATHER, self._results, None, ctypes.c_int64(0))
        for i, array in self.bound.changed:
            np.copyto(arguments[i].numpy(), array)
        return [torch.from_numpy(result.copy()) for result in self.bound.results]

    def run_minibatches(
        self,
        leaves: Sequence[Array],
        rows: NDArray[np.int64] | None,
        others: Sequence[Tensor],
        totals: NDArray[np.float32],
    ) -> NDArray[np.float32]:
        """Runs the update on one minibatch after another, gathering only the columns that it reads.

        Args:
            leaves: Columns of the batch: the update's arguments after the first `num_kept`.
            rows: Indices of the S rows of each of K minibatches, [K, S]; None for one minibatch of all rows.
            others: The update's arguments after the columns.
            totals: Running sums [N], to which the first N results of each minibatch are added.

        Returns:
            The update's results for the last minibatch, without the first N.
        """
        sums = (self._results, pointer(totals), ctypes.c_int64(len(totals)))
        if rows is None:
            self.bound.fill(leaves, None, others)
            self._library.run(*self.steps.arguments, *NOTHING_TO_GATHER, *sums)
        else:
            self._run_through(leaves, rows, others, sums)
        rest: NDArray[np.float32] = self.bound.results[0][len(totals) :].copy()
        return rest

    def _run_through(
        self, leaves: Sequence[Array], rows: NDArray[np.int64], others: Sequence[Tensor], sums: tuple[Any, ...]
    ) -> None:
        self.bound.filled_with = None
        first_other = self.bound.num_kept + len(leaves)
        gathered = []
        for i, array in self.bound.read:
            if i < first_other:
                leaf = leaves[i - self.bound.num_kept]
                gathered.append((leaf, array))
            else:
                np.copyto(array, others[i - first_other].numpy())
        rows_of = [(address(leaf), address(array), array.nbytes // len(array), 0) for leaf, array in gathered]
        table = np.array(rows_of, COLUMN)
        done = 0
        while done < len(rows):
            part, began = rows[done : done + self._in_one_call], time.perf_counter()
            self._library.run(
                *self.steps.arguments,
                *(pointer(table), ctypes.c_int64(len(table))),
                *(pointer(part), ctypes.c_int64(part.shape[1]), ctypes.c_int64(len(part))),
                *sums,
            )
            minibatches_per_s = len(part) / max(time.perf_counter() - began, 1e-6)
            self._in_one_call = max(int(LONGEST_CALL_S * minibatches_per_s), 1)
            done += len(part)
