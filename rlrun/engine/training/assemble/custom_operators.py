"""Custom operators that a user inserts before an algorithm's learning (`before_learning`)."""

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
    """Imports the class of a custom operator.

    Args:
        path: `package.module:Class`.
        settings: Arguments of the class, after the trainee.

    Raises:
        UsageError: There is no such class, it is not an operator, or it does not accept the arguments.
        UserCodeError: The module raises while it is imported.
    """
    found = load_object(path, "operator")
    if not (isinstance(found, type) and issubclass(found, Operator)):
        raise UsageError(f"'{path}' is no operator: derive it from rlrun.plugin.Operator, or StatefulOperator")
    refuse_other_settings(f"the operator '{path}'", found, settings, "trainee")
    return found


def custom_operator(path: str, settings: Mapping[str, Any], trainee: Trainee) -> Operator:
    """Creates a custom operator of `before_learning`.

    Args:
        path: `package.module:Class`.
        settings: Arguments of the class, after the trainee.
        trainee: The trainee.

    Raises:
        UsageError: There is no such class, it is not an operator, or it does not accept the arguments.
        TrainingFailed: The operator's constructor raises.
    """
    make: Any = custom_operator_class(path, settings)
    try:
        operator: Operator = make(trainee, **settings)
    except Exception as error:
        raise TrainingFailed(f"operator {path} raised in __init__:\n{users_traceback(error)}") from error
    return operator
