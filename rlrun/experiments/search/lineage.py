"""Lineage of populations (PBT): parents and hyperparameters of each member by generation, and checkpoints to copy.

``lineage.jsonl`` is a write-ahead log with one line per decision; after a kill, the logged decisions are carried out.
``generations/<trial>/<generation>`` is a member's checkpoint at a generation, kept while another member may copy it.
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

from rlrun.engine.checkpoint.durable import (
    append_line,
    commit_directory,
    explained_full_disk,
    partial_name,
    remove_leftovers,
)
from rlrun.engine.checkpoint.plain_json import read_lines
from rlrun.engine.checkpoint.store import CheckpointStore
from rlrun.engine.messages.errors import CheckpointError

LINEAGE_FILE = "lineage.jsonl"
GENERATIONS_DIRECTORY = "generations"

How = Literal["initial", "kept", "perturbed", "resampled", "mixed", "modelled"]


@dataclass(frozen=True)
class MemberRecord:
    """State of one population member at one generation.

    Attributes:
        trial: Name of the trial.
        score: The metric at the generation, as reported; None if the member had no value or had diverged.
        env_steps: Env steps at the generation; 0 in offline training.
        how: Change of the hyperparameters: kept, perturbed, resampled, mixed (some perturbed, others resampled), or
            modeled (chosen by a model); initial at generation 0.
        parent: The trial whose weights are copied; None if the member keeps its own weights.
        parent_generation: The generation of the parent's checkpoint; None if there is no parent.
        params: Hyperparameters of the member after the generation, by path below `config`.
        sgd_steps: SGD steps at the generation in offline training; None otherwise.
    """

    trial: str
    score: float | None
    env_steps: int
    how: How
    parent: str | None
    parent_generation: int | None
    params: dict[str, Any]
    sgd_steps: int | None = None

    @property
    def steps(self) -> int:
        """Training steps of the member at the generation: SGD steps in offline training, else env steps."""
        return self.env_steps if self.sgd_steps is None else self.sgd_steps


@dataclass(frozen=True)
class Generation:
    """Exploit-and-explore decision of a PBT generation: for all members of a population, or one in asynchronous PBT.

    Attributes:
        population: The population's seed.
        generation: Number of the generation, which is 0 at the start; generation g is reached after g intervals of
            training.
        members: The members, in the order of the trials.
    """

    population: int
    generation: int
    members: tuple[MemberRecord, ...]


_GENERATION = TypeAdapter(Generation)


class Lineage:
    """Lineage of a run's populations (PBT) on disk: a log of who copied whom, and the checkpoints kept for copying.

    Attributes:
        run: The run's directory.
    """

    def __init__(self, run: Path) -> None:
        """Initializes the lineage from a run's directory, which may be empty."""
        self.run = Path(run)

    def append(self, generation: Generation) -> None:
        """Appends the decision for a generation to the log, synced to disk.

        Raises:
            OutOfResources: The disk is full.
        """
        append_line(self.run / LINEAGE_FILE, json.dumps(asdict(generation), allow_nan=False).encode())

    def keep_checkpoint(self, trial: str, generation: int, checkpoint: Path) -> None:
        """Preserves a member's checkpoint at a generation, using hard links, so that other members can copy it."""
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
            commit_directory(partial, kept)

    def checkpoint(self, trial: str, generation: int) -> Path:
        """Path of a population member's checkpoint that was preserved at a generation."""
        return self.run / GENERATIONS_DIRECTORY / trial / f"{generation:06d}"

    def forget_checkpoints(self, needed: Iterable[tuple[str, int]]) -> None:
        """Removes all checkpoints preserved for other members, except those still needed.

        Args:
            needed: Pairs (trial, generation) of the checkpoints to keep.
        """
        kept = {self.checkpoint(trial, generation) for trial, generation in needed}
        for path in (self.run / GENERATIONS_DIRECTORY).glob("*/*"):
            if path not in kept:
                shutil.rmtree(path, ignore_errors=True)

    def close(self) -> None:
        """Removes all checkpoints preserved for other members, after all members have ended."""
        shutil.rmtree(self.run / GENERATIONS_DIRECTORY, ignore_errors=True)


def read_generations(run: Path) -> list[Generation]:
    """Loads a run's generations, oldest first, skipping lines truncated by a kill; [] if there are no populations."""
    return read_lines(Path(run) / LINEAGE_FILE, _GENERATION)


def newest_records(generations: Iterable[Generation]) -> Mapping[str, tuple[int, MemberRecord]]:
    """Newest generation of each trial (PBT), with the trial's record at that generation."""
    return {member.trial: (line.generation, member) for line in generations for member in line.members}


def _link(source: Path, target: Path) -> None:
    try:
        os.link(source, target)
    except OSError:  # on another file system, or without support for hard links
        shutil.copyfile(source, target)


def newest_checkpoint_of(checkpoints: Path) -> Path:
    """Newest valid checkpoint of a population member that has just reached a generation.

    Raises:
        CheckpointError: The member has no valid checkpoint.
    """
    newest = CheckpointStore(checkpoints).newest_valid()
    if newest is None:
        raise CheckpointError(f"{checkpoints}: the trial reached a generation but has no checkpoint of it")
    return newest
