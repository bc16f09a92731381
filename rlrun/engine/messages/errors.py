"""All exceptions of rlrun with their exit codes, and suggestions for misspelled names.

RlrunError (1)
├── UsageError (2)            invalid arguments of a command or a Python call
│   ├── SpecError (2)         all mistakes of a YAML file or config at once
│   └── CompilerMissing (2)   a run whose updates need a C compiler, which is not installed
├── TargetMissed (3)          a run that ended below the targets of its spec
├── TrainingFailed (4)        an env, a plugin or the mathematics failed while training
│   └── RayEnded (4)          Ray itself ended; its trials are not at fault and can be resumed
├── CheckpointError (5)       a checkpoint that cannot be used
│   ├── CheckpointCorrupt     a file is missing, truncated or altered
│   ├── CheckpointRefused     the checkpoint names code that is not trusted
│   └── RunDamaged            a file of a run's directory cannot be read
├── DataSetError (5)          a data set that cannot be used
├── EnvironmentUnusable (6)   an env whose package is missing, or that is unsuitable for training
├── OutOfResources (7)        the disk or the memory is full, or a path is not writable
│   └── DiskFull              the disk is full; no trial is at fault, and all can be resumed once there is room
├── RunTakenOver (8)          another process has taken over the run's copy in its storage
└── Interrupted (130)         the user pressed Ctrl-C
"""

from __future__ import annotations

import difflib
import errno
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import ClassVar

from typing_extensions import override

LONGEST_TEXT = 20_000
"""Maximum length in characters of a message that quotes foreign text, such as an env's exception."""


class ExitCode(IntEnum):
    """Exit codes of the command line, as documented in docs/running.md."""

    OK = 0
    BUG = 1
    USAGE_OR_SPEC = 2
    TARGET_MISSED = 3
    TRAINING_FAILED = 4
    CHECKPOINT_REFUSED = 5
    ENVIRONMENT_UNUSABLE = 6
    DISK_OR_MEMORY = 7
    TAKEN_OVER = 8
    INTERRUPTED = 130


class RlrunError(Exception):
    """Base class of all rlrun exceptions; the text is a message to the user, shown without a traceback."""

    exit_code: ClassVar[int] = ExitCode.BUG


class UsageError(RlrunError):
    """Error for invalid arguments of a command or a Python call."""

    exit_code = ExitCode.USAGE_OR_SPEC


@dataclass(frozen=True)
class Problem:
    """Mistake in a spec, with source position, explanation and advice.

    Attributes:
        path: Dotted path of the value inside the spec, such as ``cartpole-ppo.config.lr``.
        message: Explanation of the mistake, with the most similar valid name if it helps.
        file: The file as the user named it, or "" for a value that came from Python.
        line: Line in the file, from 1, or 0 if unknown.
        column: Column in the file, from 1, or 0 if unknown.
    """

    path: str
    message: str
    file: str = ""
    line: int = 0
    column: int = 0

    @override
    def __str__(self) -> str:
        where = f"{self.file}:{self.line}:{self.column}: " if self.line else f"{self.file}: " if self.file else ""
        return f"{where}{self.path}: {self.message}" if self.path else f"{where}{self.message}"


class SpecError(UsageError):
    """Error for an invalid spec; it lists all mistakes, one per line, also in the attribute `problems`."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__("\n".join(str(problem) for problem in problems))
        self.problems = tuple(problems)


class CompilerMissing(UsageError):
    """Error for a run whose updates need a compiler that this machine does not have.

    The message offers alternatives.
    """


class TargetMissed(RlrunError):
    """Error for a run that ended below the targets of its spec."""

    exit_code = ExitCode.TARGET_MISSED


class TrainingFailed(RlrunError):
    """Error for training that failed; the message contains the traceback of user code, shortened in the middle."""

    exit_code = ExitCode.TRAINING_FAILED

    def __init__(self, message: str) -> None:
        super().__init__(shortened(message))


class RayEnded(TrainingFailed):
    """Error for a Ray runtime that ended, or a cluster that lost its head node, while trials were running."""


class CheckpointError(RlrunError):
    """Error for a checkpoint that cannot be used, for example because it is damaged."""

    exit_code = ExitCode.CHECKPOINT_REFUSED


class CheckpointCorrupt(CheckpointError):
    """Error for a checkpoint with a missing, truncated or altered file, which the message names."""


class CheckpointRefused(CheckpointError):
    """Error for a checkpoint or run that refers to untrusted code, files or services."""


class RunDamaged(CheckpointError):
    """Error for a run or trial with an unreadable file, which the message names."""


class DataSetError(RlrunError):
    """Error for a data set with a missing, altered or unreadable file, which the message names."""

    exit_code = ExitCode.CHECKPOINT_REFUSED


class EnvironmentUnusable(RlrunError):
    """Error for an env whose package is not installed, or that is unsuitable for training.

    For an unknown env id, a `UsageError` is raised instead.
    """

    exit_code = ExitCode.ENVIRONMENT_UNUSABLE


class OutOfResources(RlrunError):
    """Error for a full disk or exhausted memory; the message names the location, and the needed and free bytes."""

    exit_code = ExitCode.DISK_OR_MEMORY


class DiskFull(OutOfResources):
    """Error for a full disk; the message names the location, and the needed and free bytes."""


class RunTakenOver(RlrunError):
    """Error for a process that no longer owns its run's copy in storage, because another process took it over."""

    exit_code = ExitCode.TAKEN_OVER


class Interrupted(RlrunError):
    """Error for a run that the user interrupted; the message names the location of its saved state."""

    exit_code = ExitCode.INTERRUPTED


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an exception means that memory ran out; recognizes torch's RuntimeErrors on CPU and GPU too."""
    if isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno == errno.ENOMEM):
        return True
    if isinstance(error, ImportError):  # raised by a library under a limit on the address space (`ulimit -v`)
        return "failed to map segment" in str(error) or "annot allocate memory" in str(error)
    return isinstance(error, RuntimeError) and any(
        words in str(error) for words in ("out of memory", "can't allocate memory", "can't start new thread")
    )


def exit_code_of(error: BaseException) -> int:
    """Returns the exit code of a command that ends because a trial raised the given exception.

    Examples:
        >>> exit_code_of(TrainingFailed("no ground")), exit_code_of(MemoryError()), exit_code_of(KeyError("lr"))
        (4, 7, 1)
    """
    if isinstance(error, RlrunError):
        return int(error.exit_code)
    return int(OutOfResources.exit_code if is_out_of_memory(error) else ExitCode.BUG)


def shortened(text: str) -> str:
    """Shortens a string longer than `LONGEST_TEXT` by cutting out its middle.

    Examples:
        >>> len(shortened(10**6 * "x")) <= LONGEST_TEXT
        True
    """
    if len(text) <= LONGEST_TEXT:
        return text
    part = LONGEST_TEXT // 2 - 50
    return f"{text[:part]}\n... {len(text) - 2 * part:,} characters omitted ...\n{text[-part:]}"


MANY_NAMES = 20
"""Maximum number of allowed names that a message lists if none resembles the wrong name."""


def did_you_mean(name: str, choices: Iterable[str]) -> str:
    """Returns a hint "; did you mean 'x'?" with the valid name most similar to a wrong one; "" if none is similar.

    Examples:
        >>> did_you_mean("nmu_workers", ["num_workers", "gamma"]), did_you_mean("zzz", ["num_workers", "gamma"])
        ("; did you mean 'num_workers'?", '')
    """
    near = difflib.get_close_matches(name, list(choices), n=1, cutoff=0.6)
    return f"; did you mean '{near[0]}'?" if near else ""
