"""The lineage of populations: who copied whom at which generation, with which settings, and the checkpoints for it.

``lineage.jsonl`` has a line for each decision, appended and synced before it is carried out: after a kill the same
decision is carried out again. ``generations/<trial>/<generation>`` is the checkpoint with which a member reached a
generation, for as long as another member may have to copy it.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import TypeAdapter

from rlrun.checkpoint.durable import append_line, explained_full_disk, partial_name, put_directory, remove_leftovers
from rlrun.checkpoint.plain_json import read_lines
from rlrun.checkpoint.store import CheckpointStore
from rlrun.errors import CheckpointError

LINEAGE_FILE = "lineage.jsonl"
GENERATIONS_DIRECTORY = "generations"

How = Literal["initial", "kept", "perturbed", "resampled", "mixed", "modelled"]


@dataclass(frozen=True)
class MemberRecord:
    """One member of a population at one generation.

    Attributes:
        trial: Name of the trial.
        score: The metric at the generation, as reported; None if it had none or had diverged.
        env_steps: Env steps at the generation.
        how: How its settings changed: kept, perturbed, resampled, mixed (some perturbed, others resampled), or
            modelled (chosen by a model); initial at generation 0.
        parent: The trial whose weights it copies, None if it keeps its own.
        parent_generation: The generation of the parent's checkpoint, None without a parent.
        params: Its settings after the generation, by path below `config`.
    """

    trial: str
    score: float | None
    env_steps: int
    how: How
    parent: str | None
    parent_generation: int | None
    params: dict[str, Any]


@dataclass(frozen=True)
class Generation:
    """One decision: on all members of a population, or on a single one in an asynchronous population.

    Attributes:
        population: The population's seed.
        generation: Its number, from 0 for the start; generation g is after g intervals of env steps.
        members: The members, in the order of the trials.
    """

    population: int
    generation: int
    members: tuple[MemberRecord, ...]


_GENERATION = TypeAdapter(Generation)


class Lineage:
    """Reads and writes the lineage of a run's populations.

    Attributes:
        run: The run's directory.
    """

    def __init__(self, run: Path) -> None:
        """Refers to a run's directory, which may be empty."""
        self.run = Path(run)

    def append(self, generation: Generation) -> None:
        """Appends a decision durably.

        Raises:
            OutOfResources: The disk is full.
        """
        append_line(self.run / LINEAGE_FILE, json.dumps(asdict(generation), allow_nan=False).encode())

    def keep_checkpoint(self, trial: str, generation: int, checkpoint: Path) -> None:
        """Keeps the checkpoint with which a member has reached a generation, by hard links to its files."""
        kept = self.checkpoint(trial, generation)
        if kept.is_dir():
            return
        found = sorted(checkpoint.rglob("*"))
        with explained_full_disk(kept, lambda: sum(path.stat().st_size for path in found)):
            kept.parent.mkdir(parents=True, exist_ok=True)
            remove_leftovers(kept.parent)
            partial = partial_name(kept)
            for path in (checkpoint, *found):
                copy = partial / path.relative_to(checkpoint)
                if path.is_dir():
                    copy.mkdir()
                else:
                    _link(path, copy)
            put_directory(partial, kept)

    def checkpoint(self, trial: str, generation: int) -> Path:
        """Path of the kept checkpoint with which a member has reached a generation."""
        return self.run / GENERATIONS_DIRECTORY / trial / f"{generation:06d}"

    def forget_checkpoints(self, needed: Iterable[tuple[str, int]]) -> None:
        """Removes all kept checkpoints but the needed ones.

        Args:
            needed: (trial, generation) of each needed one.
        """
        kept = {self.checkpoint(trial, generation) for trial, generation in needed}
        for path in (self.run / GENERATIONS_DIRECTORY).glob("*/*"):
            if path not in kept:
                shutil.rmtree(path, ignore_errors=True)

    def close(self) -> None:
        """Removes all kept checkpoints, once all members are over."""
        shutil.rmtree(self.run / GENERATIONS_DIRECTORY, ignore_errors=True)


def read_generations(run: Path) -> list[Generation]:
    """Reads the lineage of a run, oldest first; [] without populations. Lines that a kill has truncated are skipped."""
    return read_lines(Path(run) / LINEAGE_FILE, _GENERATION)


def newest_records(generations: Iterable[Generation]) -> Mapping[str, tuple[int, MemberRecord]]:
    """The last generation of each trial, and its record there."""
    return {member.trial: (line.generation, member) for line in generations for member in line.members}


def _link(source: Path, target: Path) -> None:
    try:
        os.link(source, target)
    except OSError:  # another file system, or one without hard links
        shutil.copyfile(source, target)


def newest_checkpoint_of(checkpoints: Path) -> Path:
    """The newest valid checkpoint of a member that has just reached a generation.

    Raises:
        CheckpointError: There is none.
    """
    newest = CheckpointStore(checkpoints).newest_valid()
    if newest is None:
        raise CheckpointError(f"{checkpoints}: the trial has reached a generation without a checkpoint")
    return newest
