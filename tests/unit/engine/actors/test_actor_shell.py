from __future__ import annotations

import pickle
import subprocess
import sys
from functools import partial
from typing import Any

import pytest

from rlrun.engine.actors.actor_shell import ActorShell, Failure
from rlrun.engine.messages.errors import Problem, SpecError, TrainingFailed, UsageError


class Bench:
    """The object in the shells of these tests."""

    def __init__(self, start: int) -> None:
        if start < 0:
            raise UsageError("a bench cannot start below 0")
        self.value = start

    def add(self, number: int) -> int:
        self.value += number
        return self.value

    def divide(self, by: int) -> float:
        return self.value / by


def shell(start: int = 1) -> ActorShell:
    return ActorShell(pickle.dumps(partial(Bench, start)), [])


def sent(failure: Any) -> Failure:
    """Returns a failure as it arrives in another process."""
    assert isinstance(failure, Failure)
    arrived = pickle.loads(pickle.dumps(failure))
    assert isinstance(arrived, Failure)
    return arrived


@pytest.fixture(autouse=True)
def _threads_of_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS"):
        monkeypatch.setenv(name, "1")


def test_a_shell_answers_with_the_return_value_of_the_method() -> None:
    holder = shell()
    holder.tell("add", 4)
    assert holder.ask("add", 2) == 7
    assert holder.ready() is None


def test_an_rlrun_exception_keeps_its_type_and_message() -> None:
    failure = sent(shell(-1).ready())
    error = failure.error("bench 3")
    assert type(error) is UsageError
    assert str(error) == "a bench cannot start below 0"


def test_attributes_and_notes_of_an_exception_are_preserved() -> None:
    problems = [Problem("lr", "is negative"), Problem("gamma", "is above 1")]
    original = SpecError(problems)
    original.add_note("while the bench was made")
    error = sent(Failure.of(original)).error("bench 3")
    assert isinstance(error, SpecError)
    assert str(error) == str(original)
    assert error.problems == tuple(problems)
    assert error.__notes__ == ["while the bench was made"]


def test_a_foreign_exception_becomes_a_training_failed_error_with_its_traceback(wording) -> None:
    error = sent(shell().ask("divide", 0)).error("bench 3")
    assert type(error) is TrainingFailed
    assert str(error).startswith("bench 3 failed:\nTraceback (most recent call last):\n")
    assert wording("self.value") in str(error).splitlines()
    assert str(error).endswith("\nZeroDivisionError: division by zero")


def test_an_exception_of_a_local_class_becomes_a_training_failed_error_with_its_text(wording) -> None:
    class LocalError(UsageError):
        pass

    error = sent(Failure.of(LocalError("no such bench"))).error("bench 3")
    assert type(error) is TrainingFailed
    assert str(error) == wording("LocalError")


def test_unpicklable_attributes_of_an_exception_are_dropped() -> None:
    original = UsageError("no such bench")
    original.lock = lambda: None  # type: ignore[attr-defined]
    assert sent(Failure.of(original)).error("bench 3").args == ("no such bench",)


def test_the_failure_of_a_tell_is_reported_by_the_next_ask() -> None:
    holder = shell()
    holder.tell("divide", 0)
    assert isinstance(holder.ask("add", 1), Failure)


def test_the_shell_imports_nothing_heavy() -> None:
    program = """
import sys
import rlrun.engine.actors.actor_shell
print([name for name in ("ray", "torch", "gymnasium", "numpy", "pydantic") if name in sys.modules])
"""
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout == "[]\n"
