"""Operator pipeline of a rollout worker, applied to each fragment."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from rlrun.engine.flow.flow import StatefulOperator, WorkerOperator, learns, operator_label

if TYPE_CHECKING:
    from rlrun.engine.policy.weights import Weights


class OperatorChain:
    """Sequence of postprocessing operators on a rollout worker."""

    def __init__(self, operators: Iterable[Callable[[Any], Any]]) -> None:
        self.operators = tuple(operators)
        self._sgd_s = 0.0

    def described(self) -> tuple[tuple[str, dict[str, Any]], ...]:
        """Returns the name and settings of each operator for the printed plan."""
        return tuple(operator_label(operator) for operator in self.operators)

    def __call__(self, item: Any) -> Any:
        """Applies all operators to an item, and adds the operator's name to exceptions."""
        for operator in self.operators:
            began = time.perf_counter()
            try:
                item = operator(item)
            except Exception as error:
                error.add_note(f"raised by the operator {operator_label(operator)[0]} on the worker")
                raise
            if learns(operator):
                self._sgd_s += time.perf_counter() - began
        return item

    def take_sgd_s(self) -> float:
        """Returns the seconds of SGD since the last call."""
        taken, self._sgd_s = self._sgd_s, 0.0
        return taken

    def for_worker(self, worker: int) -> OperatorChain:
        """Returns the chain for one worker."""
        return OperatorChain(
            operator.for_worker(worker) if isinstance(operator, WorkerOperator) else operator
            for operator in self.operators
        )

    def begin(self) -> None:
        """Initialises the operators on the worker."""
        for operator in self.operators:
            if isinstance(operator, WorkerOperator):
                operator.begin()

    def set_weights(self, weights: Weights) -> None:
        """Passes the new behavior weights to the operators that are `WorkerOperator` objects."""
        for operator in self.operators:
            if isinstance(operator, WorkerOperator):
                operator.set_weights(weights)

    def close(self) -> None:
        """Closes the operators that are `WorkerOperator` objects."""
        for operator in self.operators:
            if isinstance(operator, WorkerOperator):
                operator.close()

    def state(self) -> dict[str, Any]:
        """Returns the states of stateful operators, by position in the chain."""
        remembering = enumerate(self.operators)
        return {str(i): operator.state() for i, operator in remembering if isinstance(operator, StatefulOperator)}

    def unsaved(self) -> list[str]:
        """Returns the reasons why a resume from a checkpoint taken now would not be exact."""
        remembering = [operator for operator in self.operators if isinstance(operator, StatefulOperator)]
        return [operator.unsaved for operator in remembering if operator.unsaved]

    def load_state(self, state: dict[str, Any]) -> None:
        """Restores the stateful operators from `state()`."""
        for position, remembered in state.items():
            operator = self.operators[int(position)]
            if isinstance(operator, StatefulOperator):
                operator.load_state(remembered)
