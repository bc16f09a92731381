"""Ray actor that wraps a plain Python object; the only class of Ray actors in rlrun.

The shell imports neither ray, torch nor gymnasium; the object is constructed, with its imports, in the actor's process.
If the object raises, the exception is returned as a `Failure`, which the calling process raises again without Ray's
wrapper.
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

from rlrun.engine.messages.errors import RlrunError, TrainingFailed
from rlrun.engine.processes.signals import die_on_sigterm

THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")
"""Environment variables that set BLAS thread counts; with one actor per core, additional threads only slow it down."""


@dataclass(frozen=True)
class Failure:
    """Exception that the object in an actor raised, in a form that can be sent to the calling process.

    Attributes:
        module: Module of the exception's class.
        name: Name of the exception's class.
        message: The exception's text.
        trace: The exception's traceback, as text.
        is_ours: Whether the message was written for the user (an RlrunError).
        attributes: Attributes of the exception, including its notes.
    """

    module: str
    name: str
    message: str
    trace: str
    is_ours: bool
    attributes: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, error: BaseException) -> Failure:
        """Creates a `Failure` from a caught exception."""
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
        """Returns the exception to raise in the calling process: the RlrunError or a TrainingFailed with the traceback.

        Args:
            where: Name of the actor, such as "rollout worker 2".
        """
        kind = self._own_class() if self.is_ours else None
        if kind is None:
            return TrainingFailed(f"{where} failed:\n{self.trace}")
        error = kind.__new__(kind, self.message)  # its constructor may take other arguments than the message
        vars(error).update(self.attributes)
        return error

    def _own_class(self) -> type[RlrunError] | None:
        found: Any = importlib.import_module(self.module)
        for part in self.name.split("."):
            if part not in vars(found):  # the class was defined inside a function, so the module has no name for it
                return None
            found = vars(found)[part]
        return found if isinstance(found, type) and issubclass(found, RlrunError) else None


class ActorShell:
    """Ray actor that holds a Python object and calls its methods; an exception is returned as a `Failure`.

    Calls are executed one at a time, in the order in which they were made. A call by `tell` has no answer; if it fails,
    the next `ask` returns the failure.
    """

    def __init__(self, make: bytes, import_paths: Sequence[str]) -> None:
        """Creates the object; if that fails, every call returns the failure.

        Args:
            make: Factory of the object, pickled separately because unpickling it may need the import paths.
            import_paths: Folders of the driver's `sys.path`, which may contain the user's modules.
        """
        die_on_sigterm()
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
        """Returns the failure of the object's construction, or None; any answer means that the actor has started."""
        return self._failure

    def ask(self, method: str, *arguments: Any) -> Any:
        """Calls a method of the object and returns its result, or a `Failure`."""
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
        """Calls a method of the object without returning an answer; a failure is returned by the next `ask`."""
        answer = self.ask(method, *arguments)
        if isinstance(answer, Failure):
            self._failure = answer
