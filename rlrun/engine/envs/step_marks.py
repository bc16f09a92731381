"""Crash-safe record of the env slot or world being stepped, for error messages after a crash in native code.

The record is a memory-mapped file, which survives a crash of the process. An update is thus a single memory write: the
env slot at each step, and the episode and seed at each reset. Env slots stepped in lockstep share one record.
"""

from __future__ import annotations

import mmap
import platform
import struct
from array import array
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from typing_extensions import override

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rlrun.engine.envs.episode_position import EpisodePosition, EpisodeSeeds

_FILES = ".env-steps-{}-{}"
"""Pattern of the file name of step marks: the worker index, and the seed stream with the first env slot."""

_HEAD = struct.Struct("=qqq")
_EPISODE = struct.Struct("=qq")
NO_SLOT = -1
ALL_SLOTS = -2
_LARGEST_BYTES = 1_000_000

_kept_in: list[Path] = []
"""Stack of trial directories; the last one belongs to this process's trial."""


class StepMarkLocation(NamedTuple):
    """Location of the step marks (files that name the env slot being stepped) of a trial's processes.

    Attributes:
        host: Name of the machine; processes on other machines write no marks.
        directory: The trial's directory on that machine.
    """

    host: str
    directory: Path


MOST_TOLD = 8
"""Maximum number of env slots named in a message about a lockstep env."""


def join_truncated(slots: Sequence[str]) -> str:
    """Joins descriptions of env slots into one text; slots beyond the first `MOST_TOLD` are only counted."""
    more = [f"and {len(slots) - MOST_TOLD} more"] if len(slots) > MOST_TOLD else []
    return "; ".join([*slots[:MOST_TOLD], *more])


class SteppedSlot(NamedTuple):
    """Env slot or world that was being stepped when a process died.

    Attributes:
        slot: Index of the env slot or world.
        episode: Index of the episode among the slot's episodes, from 0.
        seed: The seed that the episode was reset with.
    """

    slot: int
    episode: int
    seed: int


@dataclass(frozen=True)
class SteppedEnv:
    """Env that was being stepped when a process died, and the slots concerned.

    Attributes:
        env_id: The env's id or factory.
        slots: Env slots or worlds that were being stepped: a single one, or all slots of a lockstep env.
        in_training: Whether the episodes were for training, and not for evaluation.
        each: Word for a slot in messages: `env` or `world`.
    """

    env_id: str
    slots: tuple[SteppedSlot, ...]
    in_training: bool
    each: str = "env"

    @override
    def __str__(self) -> str:
        what = "" if self.in_training else "an evaluation in "
        told = [f"{self.each} {slot}, episode {episode} with seed {seed}" for slot, episode, seed in self.slots]
        return f"{what}env {self.env_id} ({join_truncated(told)})"


class StepMarks:
    """Writer of the crash-safe record of the env slot being stepped; writes only in processes of a trial.

    Args:
        env_id: The env's id or factory.
        seeds: Episode seeds, whose stream distinguishes training from evaluation.
        num_envs: Number of env slots or worlds, B.
        each: Word for a slot in messages: `env` or `world`.

    Attributes:
        slot: Array [1] with the env slot being stepped or reset; -1 for none, -2 for all in lockstep.
    """

    def __init__(self, env_id: str, seeds: EpisodeSeeds, num_envs: int, each: str = "env") -> None:
        head = array("q", [NO_SLOT, seeds.stream, num_envs, *[0, 0] * num_envs])
        memory = memoryview(_kept(seeds, head.tobytes() + f"{each} {env_id}".encode()))
        self.slot = memory[:8].cast("q")
        self._episodes = memory[_HEAD.size : _HEAD.size + num_envs * _EPISODE.size].cast("q")

    def begin(self, slot: int, episode: int, seed: int) -> None:
        """Records that an env slot is being reset to an episode."""
        self._episodes[2 * slot], self._episodes[2 * slot + 1] = episode, seed
        self.slot[0] = slot

    def begin_together(self, places: Mapping[int, EpisodePosition]) -> None:
        """Records that env slots stepped in lockstep are being reset, each to the episode of its given position."""
        for slot, place in places.items():
            self._episodes[2 * slot], self._episodes[2 * slot + 1] = place.episode, place.seed
        self.slot[0] = ALL_SLOTS

    def rest(self) -> None:
        """Records that no env slot is being stepped or reset, so that a crash is not attributed to an env."""
        self.slot[0] = NO_SLOT


def enable_step_marks(directory: Path) -> None:
    """Makes envs created from now on record which env slot is stepped, in files in the trial's directory.

    Removes earlier records.
    """
    end_marks()
    _remove_marks(directory)
    _kept_in.append(directory)


def end_marks() -> None:
    """Stops recording which env is stepped, and removes the files, after a trial finished or failed with a message."""
    while _kept_in:
        _remove_marks(_kept_in.pop())


def step_mark_location() -> StepMarkLocation | None:
    """Returns the location at which this process records the env being stepped; None if it records nothing."""
    return StepMarkLocation(platform.node(), _kept_in[-1]) if _kept_in else None


def keep_marks_at(place: StepMarkLocation | None) -> None:
    """If the trial's directory is on this machine, makes the worker process record there which env it steps."""
    if place is not None and place.host == platform.node() and place.directory.is_dir():
        _kept_in[:] = [place.directory]


def stepped_env(directory: Path, worker: int = 0) -> SteppedEnv | None:
    """Returns the env that a dead process was stepping, from its step record; None without a readable record.

    Args:
        directory: The trial's directory.
        worker: Index of the rollout worker, 0 for the trial's own process.
    """
    for path in sorted(directory.glob(_FILES.format(worker, "*"))):
        try:
            with path.open("rb") as file:
                data = file.read(_LARGEST_BYTES)
            slot, stream, num_envs = _HEAD.unpack_from(data)
            stepped = range(num_envs) if slot == ALL_SLOTS else range(slot, slot + 1) if 0 <= slot < num_envs else ()
            first = int(path.name.rpartition("+")[2])
            places = ((b, _EPISODE.unpack_from(data, _HEAD.size + b * _EPISODE.size)) for b in stepped)
            slots = tuple(SteppedSlot(first + b, *place) for b, place in places)
            if slots:
                each, _, env_id = data[_HEAD.size + num_envs * _EPISODE.size :].decode().partition(" ")
                return SteppedEnv(env_id, slots, in_training=stream == 0, each=each)
        except (OSError, ValueError, struct.error):  # a damaged file has no usable mark
            continue
    return None


def _kept(seeds: EpisodeSeeds, content: bytes) -> mmap.mmap | bytearray:
    """Allocates memory with the given content: mapped to a file if step marks are enabled, else plain."""
    if not _kept_in:
        return bytearray(content)
    path = _kept_in[-1] / _FILES.format(seeds.worker_index, f"{seeds.stream}+{seeds.first_slot}")
    try:
        path.unlink(missing_ok=True)  # never truncated: an earlier env may still have it mapped
        with path.open("x+b", buffering=0) as file:
            file.write(content)  # leaves no hole in the file, with which a full disk would kill the process
            return mmap.mmap(file.fileno(), len(content))
    except (OSError, ValueError):  # this error is not worth ending a run
        return bytearray(content)


def _remove_marks(directory: Path) -> None:
    for path in directory.glob(_FILES.format("*", "*")):
        try:
            path.unlink()
        except OSError:
            continue
