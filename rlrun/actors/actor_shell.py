"""The Ray actor that every remote part of rlrun runs in: a thin shell around a plain object.

The shell imports neither ray, torch nor gymnasium; what the object needs is imported where it is made, in the actor.
What the object raises is answered as a `Failure` and raised again by the driver as it was, without Ray's wrapping.
"""

from __future__ import annotations

import importlib
import os
import pickle
import sys
import traceback
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from rlrun.errors import RlrunError, TrainingFailed

THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")
"""What BLAS libraries read when they are loaded: with an actor per core, threads of their own only get in the way."""


@dataclass(frozen=True)
class Failure:
    """What an object in an actor raised.

    Attributes:
        module: Module of the exception's class.
        name: Name of that class.
        message: The exception's text.
        trace: Its traceback, as text.
        is_ours: Whether its message was written for the user (an RlrunError).
        attributes: The exception's own attributes, notes among them.
    """

    module: str
    name: str
    message: str
    trace: str
    is_ours: bool
    attributes: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, error: BaseException) -> Failure:
        """Describes an exception that was caught."""
        attributes = dict(vars(error))
        try:
            pickle.dumps(attributes)
        except Exception:  # pickle raises whatever the attribute's class raises
            attributes = {}
        kind = type(error)
        return cls(
            module=kind.__module__,
            name=kind.__qualname__,
            message=str(error),
            trace="".join(traceback.format_exception(error)).rstrip(),
            is_ours=isinstance(error, RlrunError),
            attributes=attributes,
        )

    def error(self, where: str) -> RlrunError:
        """Returns what the driver raises: rlrun's own exception as it was, any other with its traceback as the message.

        Args:
            where: Which actor it was, such as "rollout worker 2".
        """
        kind = self._own_class() if self.is_ours else None
        if kind is None:
            return TrainingFailed(f"{where} failed:\n{self.trace}")
        error = kind.__new__(kind, self.message)  # its constructor may want other arguments than the text
        vars(error).update(self.attributes)
        return error

    def _own_class(self) -> type[RlrunError] | None:
        found: Any = importlib.import_module(self.module)
        for part in self.name.split("."):
            if part not in vars(found):  # defined inside a function: not to be had by name
                return None
            found = vars(found)[part]
        return found if isinstance(found, type) and issubclass(found, RlrunError) else None


class ActorShell:
    """Holds an object, calls its methods, and answers with what they return or with a `Failure`.

    An actor works on one call at a time, in the order in which they were made. A failed `tell`, which nobody waits for,
    is answered at the next `ask`.
    """

    def __init__(self, make: bytes, import_paths: Sequence[str]) -> None:
        """Makes the object; a failure to do so is the answer to whatever is asked.

        Args:
            make: What makes the object when it is called, pickled, since unpickling it may need the import paths.
            import_paths: Folders of the driver's `sys.path`, where a user's own modules may lie.
        """
        for variable in THREAD_VARIABLES:
            os.environ[variable] = "1"
        sys.path.extend(path for path in import_paths if path not in sys.path)
        self._object: Any = None
        self._failure: Failure | None = None
        try:
            self._object = pickle.loads(make)()
        except (Exception, SystemExit) as error:
            self._failure = Failure.of(error)

    def ready(self) -> Failure | None:
        """Returns once the object is made, with the failure if it could not be."""
        return self._failure

    def ask(self, method: str, *arguments: Any) -> Any:
        """Returns what a method of the object returns, or a `Failure`."""
        if self._failure is not None:
            return self._failure
        try:
            return getattr(self._object, method)(*arguments)
        except (Exception, SystemExit) as error:
            return Failure.of(error)

    def leave(self) -> None:
        """Ends the actor's process."""
        from ray.actor import exit_actor

        exit_actor()

    def tell(self, method: str, *arguments: Any) -> None:
        """Calls a method of the object and keeps what it raises for the next answer."""
        answer = self.ask(method, *arguments)
        if isinstance(answer, Failure):
            self._failure = answer
