"""Type checks of the values that users' algorithms return, with error messages that name the algorithm."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from rlrun.engine.messages.errors import TrainingFailed

if TYPE_CHECKING:
    from rlrun.engine.algorithm import Algorithm
    from rlrun.engine.learner.objective import Objective
    from rlrun.engine.policy.policy import Policy

Result = TypeVar("Result")


def require(result: Result, kind: type, algorithm: Algorithm[Any], method: str) -> Result:
    """Checks the type of a value that a user's algorithm returned, and returns the value.

    Args:
        result: The result.
        kind: The required type.
        algorithm: The user's algorithm.
        method: Name of the algorithm's method that returned the value.

    Raises:
        TrainingFailed: The result has a different type.
    """
    if isinstance(result, kind):
        return result
    forgotten = ": is a return statement missing?" if result is None else ""
    raise TrainingFailed(
        f"{type(algorithm).__name__}.{method}() must return a {kind.__name__}, not {type(result).__name__}{forgotten}"
    )


def objectives_of(algorithm: Algorithm[Any], policy: Policy) -> Sequence[Objective]:
    """Returns the losses of an algorithm for a policy, after validating their types and parameters.

    Raises:
        TrainingFailed: The result is not a list of objectives, or does not fit the policy's parameters.
    """
    from rlrun.engine.learner.objective import Objective, check_objectives

    objectives = require(algorithm.objectives(policy), list, algorithm, "objectives")
    for objective in objectives:
        require(objective, Objective, algorithm, "objectives")  # each element of the list
    try:
        check_objectives(objectives, policy.parameters)
    except ValueError as error:
        raise TrainingFailed(f"{type(algorithm).__name__}.objectives(): {error}") from error
    return objectives
