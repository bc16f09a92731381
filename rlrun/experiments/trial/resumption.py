"""Report on how a trial was resumed after an interrupt, kill or pause."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from rlrun.engine.checkpoint.store import SkippedCheckpoint
from rlrun.engine.envs.step_marks import SteppedEnv

_IN_TRAINING = (
    "If the env crashed (segmentation fault), set `num_workers: 1`: the env then runs in a worker process, which is "
    "restarted up to `max_worker_restarts` times"
)
_IN_EVALUATION = "Evaluations always run in the trial's own process, regardless of `num_workers`"


def ending_in_words(who: str, stepped: SteppedEnv | None, *, steps_envs: bool) -> str:
    """Message about a trial's process that ended without an exception, probably because an env's native code crashed.

    Args:
        who: Beginning of the message, such as "the process ended".
        stepped: The env that the process was stepping when it ended, if known.
        steps_envs: Whether the trial's own process steps the training envs.

    Returns:
        The message; "" if no env can be the cause.
    """
    if stepped is not None:
        when, advice = ("while stepping", _IN_TRAINING) if stepped.in_training else ("during", _IN_EVALUATION)
        return f"{who} {when} {stepped}. {advice}"
    return f"{who}. {_IN_TRAINING}" if steps_envs else ""


@dataclass(frozen=True)
class Resumption:
    """Report on the resumption of a trial: checkpoint, lost rows, and deviations from an uninterrupted trial.

    Attributes:
        checkpoint: The restored checkpoint; None if no checkpoint existed and the trial restarted.
        iteration: The iteration of the checkpoint.
        skipped: Newer checkpoints that could not be used.
        rows_cut: Number of removed result rows from later iterations, which are computed again.
        env_slots_restarted: Number of envs that had to begin a new episode.
        other_executor: Whether updates that used to be compiled run uncompiled now, because the user allowed it.
        other_kernels: Whether the updates' compiled kernels, the processor or the BLAS library have changed.
        changed_files: Changed files among the user's own modules that the settings name.
        crash: Message about the previous process if it ended without an exception and an env may be the cause; else "".
        unsaved: Clauses that name the parts of the state which the checkpoint lacks.
        damage: Sentences that describe damage to the results so far, and how it was repaired.
    """

    checkpoint: Path | None
    iteration: int = 0
    skipped: tuple[SkippedCheckpoint, ...] = ()
    rows_cut: int = 0
    env_slots_restarted: int = 0
    other_executor: bool = False
    other_kernels: bool = False
    changed_files: tuple[str, ...] = ()
    crash: str = ""
    unsaved: tuple[str, ...] = ()
    damage: tuple[str, ...] = ()

    @property
    def is_exact(self) -> bool:
        """Whether the resumed trial is bit-for-bit identical to an uninterrupted one."""
        rounds_alike = not (self.other_executor or self.other_kernels)
        return rounds_alike and not (self.env_slots_restarted or self.changed_files or self.unsaved)

    @property
    def message(self) -> str:
        """Message for the user about the resumption, including lines about a crash, skipped checkpoints and damage."""
        crash = [self.crash] if self.crash else []
        if self.checkpoint is None:
            return "\n".join(["no checkpoint was found: restarting from the beginning", *crash, *self.damage])
        reasons = []
        if self.env_slots_restarted:
            reasons.append(
                f"{self.env_slots_restarted} of the envs could not be restored and had to start a new episode"
            )
        if self.other_executor:
            reasons.append("updates are computed differently than before")
        if self.other_kernels:
            reasons.append("the update kernels, the processor or its BLAS have changed")
        reasons += [f"{file} has changed" for file in self.changed_files]
        reasons += self.unsaved
        inexact = (
            f". Results will differ from an uninterrupted run, because {', and '.join(reasons)}" if reasons else ""
        )
        skipped = [f"skipped {checkpoint.reason}" for checkpoint in self.skipped]
        return "\n".join(
            [
                f"continuing after iteration {self.iteration}, from {self.checkpoint}{inexact}",
                *crash,
                *skipped,
                *self.damage,
            ]
        )
