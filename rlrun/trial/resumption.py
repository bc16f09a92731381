"""How a trial went on after it was interrupted, killed or paused."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from rlrun.checkpoint.store import SkippedCheckpoint
from rlrun.envs.step_marks import SteppedEnv

_IN_TRAINING = (
    "with `num_workers: 1` an env that crashes (a segmentation fault) ends its worker alone, which is made anew up to "
    "`max_worker_restarts` times"
)
_IN_EVALUATION = "evaluations run in the trial's own process, whatever `num_workers` is"


def ending_in_words(who: str, stepped: SteppedEnv | None, *, steps_envs: bool) -> str:
    """Returns what is said where a trial's process ended without a word. Its traceback is on stderr of that process.

    Args:
        who: What the process is called, and its verb.
        stepped: What it stepped when it ended, if that is known.
        steps_envs: Whether the trial's own process steps the envs that it learns in.

    Returns:
        The words, "" if envs have nothing to do with it.
    """
    if stepped is not None:
        return f"{who} in {stepped}; {_IN_TRAINING if stepped.in_training else _IN_EVALUATION}"
    return f"{who}; {_IN_TRAINING}" if steps_envs else ""


@dataclass(frozen=True)
class Resumption:
    """How a trial went on.

    Attributes:
        checkpoint: What it went on from; None if there was no checkpoint yet and it began again.
        iteration: The last iteration done by then.
        skipped: Newer checkpoints that could not be used.
        rows_cut: Results of later iterations, which will be made again.
        env_slots_restarted: Envs that had to begin a new episode.
        lost_compiler: Whether updates that were compiled go on uncompiled, as the user allowed.
        is_in_part: Whether the checkpoint is of an older format, which is read in part.
        crash: What to say of the process before if it ended without a word and envs may be the reason, "" else.
        unsaved: What the checkpoint lacks, by the parts that know.
        damage: What was wrong with the results so far, and what was done about it.
    """

    checkpoint: Path | None
    iteration: int = 0
    skipped: tuple[SkippedCheckpoint, ...] = ()
    rows_cut: int = 0
    env_slots_restarted: int = 0
    lost_compiler: bool = False
    is_in_part: bool = False
    crash: str = ""
    unsaved: tuple[str, ...] = ()
    damage: tuple[str, ...] = ()

    @property
    def is_exact(self) -> bool:
        """Whether it goes on bit for bit as if nothing had happened."""
        return not (self.env_slots_restarted or self.lost_compiler or self.is_in_part or self.unsaved)

    @property
    def message(self) -> str:
        """What to tell the user: a line, and more for a crash and each skipped checkpoint."""
        crash = [self.crash] if self.crash else []
        if self.checkpoint is None:
            return "\n".join(["no checkpoint had been written yet: begins again", *crash, *self.damage])
        reasons = []
        if self.env_slots_restarted:
            reasons.append(f"{self.env_slots_restarted} envs could not be brought back and begin a new episode")
        if self.is_in_part:
            reasons.append("the checkpoint is of an older format, whose envs, replay and dataflow are not read")
        if self.lost_compiler:
            reasons.append("updates are not compiled any more")
        reasons += self.unsaved
        inexact = f"; not exactly, because {' and '.join(reasons)}" if reasons else ""
        skipped = [f"skipped {checkpoint.reason}" for checkpoint in self.skipped]
        return "\n".join(
            [
                f"goes on after iteration {self.iteration}, from {self.checkpoint}{inexact}",
                *crash,
                *skipped,
                *self.damage,
            ]
        )
