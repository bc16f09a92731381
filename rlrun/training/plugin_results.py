"""What a plugin's methods return, looked at before it is used, so that a mistake is told as the plugin's own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from rlrun.errors import TrainingFailed

if TYPE_CHECKING:
    from rlrun.algorithm import Algorithm
    from rlrun.learner.objective import Objective
    from rlrun.policy.policy import Policy

Result = TypeVar("Result")


def demand(result: Result, kind: type, algorithm: Algorithm[Any], method: str) -> Result:
    """Returns what a plugin's method has returned, if it is of the kind that it has to be.

    Args:
        result: What came.
        kind: What has to come.
        algorithm: The plugin.
        method: Its method, without parentheses.

    Raises:
        TrainingFailed: If something else came.
    """
    if isinstance(result, kind):
        return result
    forgotten = ": is a return statement missing?" if result is None else ""
    raise TrainingFailed(
        f"{type(algorithm).__name__}.{method}() must return a {kind.__name__}, not {type(result).__name__}{forgotten}"
    )


def objectives_of(algorithm: Algorithm[Any], policy: Policy) -> Sequence[Objective]:
    """Returns a plugin's objectives for a policy, if they are some, and fit together and the policy's parameters.

    Raises:
        TrainingFailed: If they are not, or do not.
    """
    from rlrun.learner.objective import Objective, check_objectives

    objectives = demand(algorithm.objectives(policy), list, algorithm, "objectives")
    for objective in objectives:
        demand(objective, Objective, algorithm, "objectives")  # of which it is a list
    try:
        check_objectives(objectives, policy.parameters)
    except ValueError as error:
        raise TrainingFailed(f"{type(algorithm).__name__}.objectives(): {error}") from error
    return objectives
