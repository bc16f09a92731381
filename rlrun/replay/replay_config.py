"""What a spec says of a replay."""

from __future__ import annotations

from typing import Literal

from rlrun.config import ConfigModel, NonEmptyText, NonNegativeFloat, PositiveFloat, PositiveInt, Schedule

SAVED_UP_TO_BYTES = 500_000_000
"""What `save_in_checkpoints: auto` saves at most."""


class ReplayConfig(ConfigModel):
    """The experience that is kept to be learned from again."""

    capacity: PositiveInt = 100_000
    """Steps that are kept, over all workers and envs; the newest overwrite the oldest."""
    prioritized: bool = False
    """Whether steps are drawn more often the more there was to be learned from them when they were drawn last (Schaul
    et al., arXiv:1511.05952); else each is as likely as any other."""
    priority_alpha: NonNegativeFloat = 0.6
    """Exponent of the priorities: 0 draws all steps alike, 1 in proportion to their error."""
    priority_beta: Schedule = 0.4
    """Exponent of the weights that make up for drawing some steps more often; 1 makes up for it wholly."""
    priority_epsilon: PositiveFloat = 1e-6
    """Added to every error, so that a step without one is drawn now and then as well."""
    frame_stack: PositiveInt | None = None
    """How many images an observation is a stack of, the newest last, such as 4 for Atari: every image is then kept
    once, not in each stack that it is part of. Null keeps observations as they come."""
    on_disk: NonEmptyText | None = None
    """A directory in which the experience lies, in files without names that are gone when the trial's process is; null
    keeps it in memory."""
    save_in_checkpoints: Literal["auto"] | bool = "auto"
    """Whether checkpoints hold the experience, so that a resumed run goes on bit for bit; one without collects
    `learning_starts` steps anew before it learns. "auto" saves it up to 500 MB."""
