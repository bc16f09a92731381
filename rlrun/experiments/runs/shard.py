"""Shards of a run, each trained by a process that needs no connection to the others, only the run's directory."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from typing_extensions import override

from rlrun.engine.messages.errors import UsageError

T = TypeVar("T")


@dataclass(frozen=True)
class Shard:
    """Share of a run's trials: with `count` shards, trial k belongs to shard k % count.

    Attributes:
        index: Number of the shard, from 0 to count - 1.
        count: Number of shards of the run.

    Examples:
        >>> Shard(1, 3).share(["a", "b", "c", "d", "e"])
        ['b', 'e']
    """

    index: int
    count: int

    def __post_init__(self) -> None:
        """Checks the number of the shard.

        Raises:
            UsageError: There is no such shard.
        """
        if self.index == self.count > 0:
            raise UsageError(
                f"--shard {self}: shards are numbered from 0; in a job array use --array=0-{self.count - 1}, or "
                f"--shard $((SLURM_ARRAY_TASK_ID - 1))/{self.count}"
            )
        if not 0 <= self.index < self.count:
            raise UsageError(f"--shard {self}: must be I/N, with I from 0 to N - 1")

    @classmethod
    def parsed(cls, text: str) -> Shard:
        """Parses a shard from a string such as ``1/4``.

        Raises:
            UsageError: There is no such shard.
        """
        match = re.fullmatch(r"(\d+)/(\d+)", text)
        if match is None:
            raise UsageError(f"--shard {text}: must be I/N, with I from 0 to N - 1")
        return cls(int(match[1]), int(match[2]))

    @override
    def __str__(self) -> str:
        """Formats the shard as in the option ``--shard``."""
        return f"{self.index}/{self.count}"

    def owns(self, trial: int) -> bool:
        """Whether the trial with a given number belongs to the shard.

        Args:
            trial: Number of the trial in the run, from 0.
        """
        return trial % self.count == self.index

    def share(self, trials: Sequence[T]) -> list[T]:
        """Selects the shard's trials from all trials of a run.

        Args:
            trials: All trials of the run in order, or a list with one item for each of them.
        """
        return [trial for number, trial in enumerate(trials) if self.owns(number)]
