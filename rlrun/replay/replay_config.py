"""Settings of replay buffers."""

from __future__ import annotations

from typing import Literal

from rlrun.config import (
    ConfigModel,
    NonEmptyText,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    Schedule,
)

SAVED_UP_TO_BYTES = 500_000_000
"""Largest replay in bytes whose experience `save_in_checkpoints: auto` includes in checkpoints."""


class ReplayConfig(ConfigModel):
    """Settings of a replay buffer: capacity, prioritization, storage and checkpointing."""

    capacity: PositiveInt = 100_000
    """Steps that it holds, over all workers and envs; the newest overwrite the oldest."""
    prioritized: bool = False
    """Whether steps are sampled in proportion to their priorities, which follow from their last TD errors (Schaul et
    al., arXiv:1511.05952); else uniformly."""
    priority_alpha: NonNegativeFloat = 0.6
    """Exponent of the priorities: 0 samples uniformly, 1 in proportion to the TD error."""
    priority_beta: Schedule = 0.4
    """Exponent of the importance weights that correct for sampling by priority; 1 corrects wholly."""
    priority_epsilon: PositiveFloat = 1e-6
    """Added to every TD error, so that a step without one is sampled now and then too."""
    frame_stack: PositiveInt | None = None
    """Number of images in a stacked observation, the newest last, such as 4 for Atari: every image is then stored
    once, not in each stack that it is part of. Null keeps observations as they come."""
    on_disk: NonEmptyText | None = None
    """Directory for the experience, in unlinked files that vanish with the trial's process; null keeps it in memory."""
    save_in_checkpoints: Literal["auto"] | bool = "auto"
    """Whether checkpoints hold the experience, so that a resumed run continues bit for bit; one without collects
    `learning_starts` steps again before it learns. "auto" saves it up to 500 MB."""

    def saves(self, num_bytes: int) -> bool:
        """Whether checkpoints include the experience of a replay of `num_bytes` bytes."""
        return num_bytes <= SAVED_UP_TO_BYTES if self.save_in_checkpoints == "auto" else self.save_in_checkpoints


class SequenceReplayConfig(ReplayConfig):
    """Settings of a sequence replay for recurrent networks: sequence length, burn-in and overlap."""

    length: PositiveInt = 20
    """With a recurrent network: steps of a sequence that are learned from."""
    burn_in: NonNegativeInt = 20
    """With a recurrent network: steps before those, over which the networks only bring their recurrent state up."""
    stride: PositiveInt = 10
    """With a recurrent network: steps from one possible beginning of a sequence to the next; below `length`, sequences
    overlap."""
