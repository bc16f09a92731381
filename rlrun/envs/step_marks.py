"""Which env slot, or world, is being stepped, noted where it outlives this process: native code crashes unheard.

The notes are in memory behind a file, which the operating system keeps whatever becomes of the process. So a note costs
a store: of the env slot at each of its steps, of episode and seed where an episode begins.
"""

from __future__ import annotations

import mmap
import struct
from array import array
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rlrun.envs.vector_env import EpisodeSeeds

_FILES = ".env-steps-{}"
_HEAD = struct.Struct("=qqq")
_EPISODE = struct.Struct("=qq")
NO_SLOT = -1
_LARGEST_BYTES = 1_000_000

_kept_in: list[Path] = []
"""The directory of the trial that this process runs, if it runs one."""


@dataclass(frozen=True)
class SteppedEpisode:
    """What a process stepped when it ended.

    Attributes:
        env_id: The env's id or factory.
        slot: The env slot, or the number of the world.
        episode: Number of its episode, from 0.
        seed: The seed that the episode was reset with.
        in_training: Whether it was an episode to learn from, and not one of an evaluation.
        each: What a slot holds: `env` or `world`.
    """

    env_id: str
    slot: int
    episode: int
    seed: int
    in_training: bool
    each: str = "env"

    def __str__(self) -> str:
        what = "" if self.in_training else "an evaluation in "
        return f"{what}env {self.env_id} ({self.each} {self.slot}, episode {self.episode} with seed {self.seed})"


class StepMarks:
    """Notes which env slot is being stepped: in the trial's directory, or where the process runs no trial in vain.

    Args:
        env_id: The env's id or factory.
        seeds: Where the seeds come from; tells training from evaluation.
        num_envs: Number of env slots, B, or of worlds.
        each: What a slot holds: `env` or `world`.

    Attributes:
        slot: The env slot that is being stepped or reset in its only element, -1 for none.
    """

    def __init__(self, env_id: str, seeds: EpisodeSeeds, num_envs: int, each: str = "env") -> None:
        head = array("q", [NO_SLOT, seeds.stream, num_envs, *[0, 0] * num_envs])
        memory = memoryview(_kept(seeds.stream, head.tobytes() + f"{each} {env_id}".encode()))
        self.slot = memory[:8].cast("q")
        self._episodes = memory[_HEAD.size : _HEAD.size + num_envs * _EPISODE.size].cast("q")

    def begin(self, slot: int, episode: int, seed: int) -> None:
        """Notes that an env slot is being reset to begin an episode."""
        self._episodes[2 * slot], self._episodes[2 * slot + 1] = episode, seed
        self.slot[0] = slot

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


def stepped_episode(directory: Path) -> SteppedEpisode | None:
    """Returns what a trial's process stepped when it ended, None if it did something else or nobody knows."""
    for path in sorted(directory.glob(_FILES.format("*"))):
        try:
            with path.open("rb") as file:
                data = file.read(_LARGEST_BYTES)
            slot, stream, num_envs = _HEAD.unpack_from(data)
            if 0 <= slot < num_envs:
                episode, seed = _EPISODE.unpack_from(data, _HEAD.size + slot * _EPISODE.size)
                each, _, env_id = data[_HEAD.size + num_envs * _EPISODE.size :].decode().partition(" ")
                return SteppedEpisode(env_id, slot, episode, seed, in_training=stream == 0, each=each)
        except (OSError, ValueError, struct.error):  # what is damaged tells nothing
            continue
    return None


def _kept(stream: int, content: bytes) -> mmap.mmap | bytearray:
    """Returns memory that holds the content: behind a file, or plain where there is no place for one."""
    if not _kept_in:
        return bytearray(content)
    path = _kept_in[-1] / _FILES.format(stream)
    try:
        path.unlink(missing_ok=True)  # never shortened: an earlier env may still have it in its memory
        with path.open("x+b", buffering=0) as file:
            file.write(content)  # a hole in the file would end the process where the disk is full
            return mmap.mmap(file.fileno(), len(content))
    except (OSError, ValueError):  # no reason to end a run
        return bytearray(content)


def _remove_marks(directory: Path) -> None:
    for path in directory.glob(_FILES.format("*")):
        try:
            path.unlink()
        except OSError:
            continue
