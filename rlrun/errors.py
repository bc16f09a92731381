"""Every exception of rlrun, its exit code, and the nearest right name for a wrong one.

RlrunError (1)
├── UsageError (2)            a command line or a Python call that cannot mean anything
│   ├── SpecError (2)         all mistakes of a YAML file or config at once
│   └── CompilerMissing (2)   a run with compiled updates, and no C++ compiler here
├── TargetMissed (3)          a run that ended below what its spec expects
├── TrainingFailed (4)        an env, a plugin or the mathematics failed while training
│   └── RayEnded (4)          Ray has ended below the trials, which is no fault of any: they go on in another
├── CheckpointError (5)       a checkpoint that cannot be used
│   ├── CheckpointCorrupt     a file is missing, truncated or altered
│   ├── CheckpointRefused     it asks for code that nobody has vouched for
│   └── RunDamaged            a file of a run's directory cannot be understood
├── EnvironmentUnusable (6)   an env that lacks a package here, or that nothing can be trained in
├── OutOfResources (7)        the disk or the memory is full, or nothing can be written there
│   └── DiskFull              the disk, which is no fault of any one trial: they go on once there is room
└── Interrupted (130)         the user pressed Ctrl-C
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import ClassVar

LONGEST_TEXT = 20_000
"""Characters of a message that holds what others wrote, such as the text of an env's exception."""


class ExitCode(IntEnum):
    """What a command ends with; docs/running.md lists them."""

    OK = 0
    BUG = 1
    USAGE_OR_SPEC = 2
    TARGET_MISSED = 3
    TRAINING_FAILED = 4
    CHECKPOINT_REFUSED = 5
    ENVIRONMENT_UNUSABLE = 6
    DISK_OR_MEMORY = 7
    INTERRUPTED = 130


class RlrunError(Exception):
    """Whatever rlrun itself raises; its text is one message for the user, without a traceback."""

    exit_code: ClassVar[int] = ExitCode.BUG


class UsageError(RlrunError):
    """The command or call cannot mean anything as given."""

    exit_code = ExitCode.USAGE_OR_SPEC


@dataclass(frozen=True)
class Problem:
    """One mistake in a spec: where it is, what is wrong, and what to do.

    Attributes:
        path: Dotted path of the value inside the spec, such as ``cartpole-ppo.config.lr``.
        message: What is wrong and, where it helps, the nearest right name.
        file: The file as the user named it, or "" for a value that came from Python.
        line: Line in the file, from 1, or 0 if unknown.
        column: Column in the file, from 1, or 0 if unknown.
    """

    path: str
    message: str
    file: str = ""
    line: int = 0
    column: int = 0

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}:{self.column}: " if self.line else f"{self.file}: " if self.file else ""
        return f"{where}{self.path}: {self.message}" if self.path else f"{where}{self.message}"


class SpecError(UsageError):
    """All mistakes of a spec at once, a line each."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        """Keeps the problems and makes the message from them, a line each."""
        super().__init__("\n".join(str(problem) for problem in problems))
        self.problems = tuple(problems)


class CompilerMissing(UsageError):
    """A run's updates are compiled and there is no compiler here; whoever resumes it must say what to do."""


class TargetMissed(RlrunError):
    """A run ended below what its spec expects of it."""

    exit_code = ExitCode.TARGET_MISSED


class TrainingFailed(RlrunError):
    """Training failed; where a user's own code raised, its traceback is in the message.

    Args:
        message: What is told; of a text longer than `LONGEST_TEXT` its beginning and its end.
    """

    exit_code = ExitCode.TRAINING_FAILED

    def __init__(self, message: str) -> None:
        super().__init__(shortened(message))


class RayEnded(TrainingFailed):
    """Ray has ended on this machine while trials ran."""


class CheckpointError(RlrunError):
    """A checkpoint that cannot be used."""

    exit_code = ExitCode.CHECKPOINT_REFUSED


class CheckpointCorrupt(CheckpointError):
    """A checkpoint with a file that is missing, truncated or altered; the message names it."""


class CheckpointRefused(CheckpointError):
    """A checkpoint or run that asks for what nobody has vouched for: code, files, services."""


class RunDamaged(CheckpointError):
    """A run or trial with a file that cannot be understood; the message names it."""


class EnvironmentUnusable(RlrunError):
    """An env that lacks a package here, or is none; a name that does not exist at all is a UsageError."""

    exit_code = ExitCode.ENVIRONMENT_UNUSABLE


class OutOfResources(RlrunError):
    """The disk or the memory is full; the message says where, how much is needed and how much is free."""

    exit_code = ExitCode.DISK_OR_MEMORY


class DiskFull(OutOfResources):
    """The disk is full; the message says where, how much is needed and how much is free."""


class Interrupted(RlrunError):
    """The user interrupted the run; what was saved is named in the message."""

    exit_code = ExitCode.INTERRUPTED


def shortened(text: str) -> str:
    """Returns a text, of one longer than `LONGEST_TEXT` its beginning and its end.

    Examples:
        >>> len(shortened(10**6 * "x")) <= LONGEST_TEXT
        True
    """
    if len(text) <= LONGEST_TEXT:
        return text
    part = LONGEST_TEXT // 2 - 50
    return f"{text[:part]}\n... {len(text) - 2 * part:,} characters are left out here ...\n{text[-part:]}"


def did_you_mean(name: str, choices: Iterable[str]) -> str:
    """Returns "; did you mean 'x'?" for the choice nearest to a wrong name, "" if none is near.

    Examples:
        >>> did_you_mean("nmu_workers", ["num_workers", "gamma"])
        "; did you mean 'num_workers'?"
        >>> did_you_mean("zzz", ["num_workers", "gamma"])
        ''
    """
    near = difflib.get_close_matches(name, list(choices), n=1, cutoff=0.6)
    return f"; did you mean '{near[0]}'?" if near else ""
