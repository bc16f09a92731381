"""Which env slot, or world, is being stepped, noted where it outlives this process: native code crashes unheard.

The notes are in memory behind a file, which the operating system keeps whatever becomes of the process. So a note costs
a store: of the env slot at each of its steps, of episode and seed where an episode begins. Where all env slots are
stepped at once, one note is for all of them.
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

    from rlrun.envs.episode_place import EpisodePlace, EpisodeSeeds

_FILES = ".env-steps-{}-{}"
"""By worker and stream."""

_HEAD = struct.Struct("=qqq")
_EPISODE = struct.Struct("=qq")
NO_SLOT = -1
ALL_SLOTS = -2
_LARGEST_BYTES = 1_000_000

_kept_in: list[Path] = []
"""The directory of the trial that this process runs, or is a worker of."""


class MarksPlace(NamedTuple):
    """Where the processes of a trial note what they step.

    Attributes:
        host: The machine; processes elsewhere note nothing.
        directory: The trial's directory there.
    """

    host: str
    directory: Path


MOST_TOLD = 8
"""Env slots that a message names of those that are stepped at once."""


def told_in_part(slots: Sequence[str]) -> str:
    """Returns what is said of each env slot as one text; of many env slots what is said of the first ones."""
    more = [f"and {len(slots) - MOST_TOLD} more"] if len(slots) > MOST_TOLD else []
    return "; ".join([*slots[:MOST_TOLD], *more])


class SteppedSlot(NamedTuple):
    """An env slot that a process stepped when it ended.

    Attributes:
        slot: The env slot, or the number of the world.
        episode: Number of its episode, from 0.
        seed: The seed that the episode was reset with.
    """

    slot: int
    episode: int
    seed: int


@dataclass(frozen=True)
class SteppedEnv:
    """What a process stepped when it ended.

    Attributes:
        env_id: The env's id or factory.
        slots: The env slot or world that was stepped; all of them where they are stepped at once.
        in_training: Whether they were episodes to learn from, and not those of an evaluation.
        each: What a slot holds: `env` or `world`.
    """

    env_id: str
    slots: tuple[SteppedSlot, ...]
    in_training: bool
    each: str = "env"

    @override
    def __str__(self) -> str:
        what = "" if self.in_training else "an evaluation in "
        told = [f"{self.each} {slot}, episode {episode} with seed {seed}" for slot, episode, seed in self.slots]
        return f"{what}env {self.env_id} ({told_in_part(told)})"


class StepMarks:
    """Notes which env slot is being stepped: in the trial's directory, or where the process runs no trial in vain.

    Args:
        env_id: The env's id or factory.
        seeds: Where the seeds come from; tells training from evaluation.
        num_envs: Number of env slots, B, or of worlds.
        each: What a slot holds: `env` or `world`.

    Attributes:
        slot: The env slot that is being stepped or reset in its only element, -1 for none, -2 for all at once.
    """

    def __init__(self, env_id: str, seeds: EpisodeSeeds, num_envs: int, each: str = "env") -> None:
        head = array("q", [NO_SLOT, seeds.stream, num_envs, *[0, 0] * num_envs])
        memory = memoryview(_kept(seeds, head.tobytes() + f"{each} {env_id}".encode()))
        self.slot = memory[:8].cast("q")
        self._episodes = memory[_HEAD.size : _HEAD.size + num_envs * _EPISODE.size].cast("q")

    def begin(self, slot: int, episode: int, seed: int) -> None:
        """Notes that an env slot is being reset to begin an episode."""
        self._episodes[2 * slot], self._episodes[2 * slot + 1] = episode, seed
        self.slot[0] = slot

    def begin_at_once(self, places: Mapping[int, EpisodePlace]) -> None:
        """Notes that env slots are being reset to begin episodes, among all that are stepped at once."""
        for slot, place in places.items():
            self._episodes[2 * slot], self._episodes[2 * slot + 1] = place.episode, place.seed
        self.slot[0] = ALL_SLOTS

    def rest(self) -> None:
        """Notes that no env slot is being stepped."""
        self.slot[0] = NO_SLOT


def begin_marks(directory: Path) -> None:
    """Has envs that are made from now on note their steps in a trial's directory; earlier notes there are removed."""
    end_marks()
    _remove_marks(directory)
    _kept_in.append(directory)


def end_marks() -> None:
    """Removes the notes of a trial that ends in good order, or in words."""
    while _kept_in:
        _remove_marks(_kept_in.pop())


def marks_place() -> MarksPlace | None:
    """Returns where this process notes what it steps, None for nowhere."""
    return MarksPlace(platform.node(), _kept_in[-1]) if _kept_in else None


def keep_marks_at(place: MarksPlace | None) -> None:
    """Has envs that are made from now on in a worker's process note their steps where its trial does, if it can."""
    if place is not None and place.host == platform.node() and place.directory.is_dir():
        _kept_in[:] = [place.directory]


def stepped_env(directory: Path, worker: int = 0) -> SteppedEnv | None:
    """Returns what a process of a trial stepped when it ended, None if it did something else or nobody knows.

    Args:
        directory: The trial's directory.
        worker: Which rollout worker the process was, 0 for the trial's own process.
    """
    for path in sorted(directory.glob(_FILES.format(worker, "*"))):
        try:
            with path.open("rb") as file:
                data = file.read(_LARGEST_BYTES)
            slot, stream, num_envs = _HEAD.unpack_from(data)
            stepped = range(num_envs) if slot == ALL_SLOTS else range(slot, slot + 1) if 0 <= slot < num_envs else ()
            slots = tuple(SteppedSlot(b, *_EPISODE.unpack_from(data, _HEAD.size + b * _EPISODE.size)) for b in stepped)
            if slots:
                each, _, env_id = data[_HEAD.size + num_envs * _EPISODE.size :].decode().partition(" ")
                return SteppedEnv(env_id, slots, in_training=stream == 0, each=each)
        except (OSError, ValueError, struct.error):  # what is damaged tells nothing
            continue
    return None


def _kept(seeds: EpisodeSeeds, content: bytes) -> mmap.mmap | bytearray:
    """Returns memory that holds the content: behind a file, or plain where there is no place for one."""
    if not _kept_in:
        return bytearray(content)
    path = _kept_in[-1] / _FILES.format(seeds.worker_index, seeds.stream)
    try:
        path.unlink(missing_ok=True)  # never shortened: an earlier env may still have it in its memory
        with path.open("x+b", buffering=0) as file:
            file.write(content)  # a hole in the file would end the process where the disk is full
            return mmap.mmap(file.fileno(), len(content))
    except (OSError, ValueError):  # no reason to end a run
        return bytearray(content)


def _remove_marks(directory: Path) -> None:
    for path in directory.glob(_FILES.format("*", "*")):
        try:
            path.unlink()
        except OSError:
            continue
