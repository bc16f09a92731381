"""Users' operators, which the setting `before_learning` inserts into a dataflow before the operator that trains."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rlrun.engine.flow.flow import Operator
from rlrun.engine.hook import refuse_other_settings, users_traceback
from rlrun.engine.messages.errors import TrainingFailed, UsageError
from rlrun.engine.settings.registry import load_object

if TYPE_CHECKING:
    from rlrun.engine.flow.trainee import Trainee


def custom_operator_class(path: str, settings: Mapping[str, Any]) -> type[Operator]:
    """Imports a user's dataflow operator class, and validates that it accepts the given arguments.

    Args:
        path: Import path of the class, `package.module:Class`.
        settings: Keyword arguments of the class, in addition to the policy in training.

    Raises:
        UsageError: There is no such class, it is not an operator, or it does not accept the arguments.
        UserCodeError: The module raises while it is imported.
    """
    found = load_object(path, "operator")
    if not (isinstance(found, type) and issubclass(found, Operator)):
        raise UsageError(f"'{path}' is not an operator: derive it from rlrun.plugin.Operator or StatefulOperator")
    refuse_other_settings(f"operator '{path}'", found, settings, "trainee")
    return found


def custom_operator(path: str, settings: Mapping[str, Any], trainee: Trainee) -> Operator:
    """Creates a user's dataflow operator, which the setting `before_learning` names.

    Args:
        path: Import path of the class, `package.module:Class`.
        settings: Keyword arguments of the class, in addition to the policy in training.
        trainee: The policy in training.

    Raises:
        UsageError: There is no such class, it is not an operator, or it does not accept the arguments.
        TrainingFailed: The operator's constructor raises an exception.
    """
    make: Any = custom_operator_class(path, settings)
    try:
        operator: Operator = make(trainee, **settings)
    except Exception as error:
        raise TrainingFailed(f"operator {path} raised in __init__:\n{users_traceback(error)}") from error
    return operator
