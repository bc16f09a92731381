"""Every exception of rlrun, its exit code, and the nearest right name for a wrong one.

RlrunError (1)
├── UsageError (2)            a command line or a Python call that makes no sense
│   ├── SpecError (2)         all mistakes of a YAML file or config at once
│   └── CompilerMissing (2)   a run with compiled updates, and no C++ compiler here
├── TargetMissed (3)          a run that ended below the targets of its spec
├── TrainingFailed (4)        an env, a plugin or the mathematics failed while training
│   └── RayEnded (4)          Ray itself ended; its trials are not at fault and can be resumed
├── CheckpointError (5)       a checkpoint that cannot be used
│   ├── CheckpointCorrupt     a file is missing, truncated or altered
│   ├── CheckpointRefused     it names code that is not trusted
│   └── RunDamaged            a file of a run's directory cannot be read
├── EnvironmentUnusable (6)   an env that lacks a package here, or cannot be trained in
├── OutOfResources (7)        the disk or the memory is full, or nothing can be written there
│   └── DiskFull              the disk is full; no trial is at fault, and all can be resumed once there is room
└── Interrupted (130)         the user pressed Ctrl-C
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import ClassVar

from typing_extensions import override

LONGEST_TEXT = 20_000
"""Longest message, in characters, that quotes foreign text such as an env's exception."""


class ExitCode(IntEnum):
    """Exit codes of the command line; docs/running.md explains them."""

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
    """Base of all exceptions that rlrun raises; its text is a message for the user, without a traceback."""

    exit_code: ClassVar[int] = ExitCode.BUG


class UsageError(RlrunError):
    """A command line or a Python call that makes no sense."""

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

    @override
    def __str__(self) -> str:
        where = f"{self.file}:{self.line}:{self.column}: " if self.line else f"{self.file}: " if self.file else ""
        return f"{where}{self.path}: {self.message}" if self.path else f"{where}{self.message}"


class SpecError(UsageError):
    """All mistakes of a spec at once, a line each.

    Attributes:
        problems: The mistakes.
    """

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__("\n".join(str(problem) for problem in problems))
        self.problems = tuple(problems)


class CompilerMissing(UsageError):
    """A run's updates were compiled and there is no C++ compiler here; the user chooses how to resume it."""


class TargetMissed(RlrunError):
    """A run ended below the targets of its spec."""

    exit_code = ExitCode.TARGET_MISSED


class TrainingFailed(RlrunError):
    """Training failed; where a user's own code raised, its traceback is in the message.

    Args:
        message: The message; the middle of one longer than `LONGEST_TEXT` is left out.
    """

    exit_code = ExitCode.TRAINING_FAILED

    def __init__(self, message: str) -> None:
        super().__init__(shortened(message))


class RayEnded(TrainingFailed):
    """Ray ended on this machine while trials ran."""


class CheckpointError(RlrunError):
    """A checkpoint that cannot be used."""

    exit_code = ExitCode.CHECKPOINT_REFUSED


class CheckpointCorrupt(CheckpointError):
    """A checkpoint with a file that is missing, truncated or altered; the message names it."""


class CheckpointRefused(CheckpointError):
    """A checkpoint or run that names code, files or services that are not trusted."""


class RunDamaged(CheckpointError):
    """A run or trial with a file that cannot be read; the message names it."""


class EnvironmentUnusable(RlrunError):
    """An env that lacks a package here, or cannot be trained in; an unknown id is a UsageError."""

    exit_code = ExitCode.ENVIRONMENT_UNUSABLE


class OutOfResources(RlrunError):
    """The disk or the memory is full; the message names the place, the bytes needed and the bytes free."""

    exit_code = ExitCode.DISK_OR_MEMORY


class DiskFull(OutOfResources):
    """The disk is full; the message names the place, the bytes needed and the bytes free."""


class Interrupted(RlrunError):
    """The user interrupted the run; the message names what was saved."""

    exit_code = ExitCode.INTERRUPTED


def shortened(text: str) -> str:
    """Returns a text, without its middle if it is longer than `LONGEST_TEXT`.

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
