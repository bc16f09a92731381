"""Settings of replay buffers."""

from __future__ import annotations

from typing import ClassVar, Literal

from rlrun.engine.settings.config import (
    ConfigModel,
    Fraction,
    ImportPath,
    NonEmptyText,
    NonNegativeFloat,
    NonNegativeInt,
    Plugin,
    PositiveFloat,
    PositiveInt,
    Schedule,
)

SAVED_UP_TO_BYTES = 500_000_000
"""Maximum size in bytes of a replay whose experience `save_in_checkpoints: auto` includes in checkpoints."""


class HindsightConfig(ConfigModel):
    """Settings of hindsight experience replay (HER, Andrychowicz et al., arXiv:1707.01495)."""

    strategy: Literal["future", "final", "episode"] = "future"
    """Goals of relabeled transitions: achieved later in the episode, at its end, or anywhere in it."""
    share: Fraction = 0.8
    """Share of sampled transitions that are relabeled; in the paper, k / (k + 1) with k = 4."""


class ReplayConfig(ConfigModel):
    """Settings of a replay buffer: capacity, prioritization, storage and checkpointing."""

    capacity: PositiveInt = 100_000
    """Capacity in env steps over all workers; the newest steps overwrite the oldest."""
    sampling: Literal["uniform", "prioritized"] | ImportPath | Plugin = "uniform"
    """Sampling: `uniform`, `prioritized` by the last TD errors (Schaul et al., arXiv:1511.05952), or a custom sampler
    as package.module:Class or {package.module:Class: SETTINGS}."""
    priority_alpha: NonNegativeFloat = 0.6
    """Priority exponent alpha: 0 samples uniformly, 1 in proportion to the TD error."""
    priority_beta: Schedule = 0.4
    """Importance-sampling exponent beta: 1 fully corrects the bias of prioritized sampling, 0 not at all."""
    priority_epsilon: PositiveFloat = 1e-6
    """Constant added to absolute TD errors, so that an error of 0 is still sampled."""
    hindsight: HindsightConfig | None = None
    """Hindsight experience replay, for envs with goals; `{}` for its defaults, null for none."""
    frame_stack: PositiveInt | None = None
    """Images in a stacked observation (newest last), such as 4 for Atari, so that each is stored once; null stores
    observations unchanged."""
    on_disk: NonEmptyText | None = None
    """Directory of memory-mapped files for the experience, deleted when the trial's process ends; null for memory."""
    save_in_checkpoints: Literal["auto"] | bool = "auto"
    """Whether checkpoints include the experience, for bit-exact resumption. Without the experience, a resumed run
    collects `learning_starts` steps again before learning. "auto" includes up to 500 MB."""

    def saves(self, num_bytes: int) -> bool:
        """Returns whether checkpoints include the stored experience, given its size in bytes."""
        return num_bytes <= SAVED_UP_TO_BYTES if self.save_in_checkpoints == "auto" else self.save_in_checkpoints


class SequenceReplayConfig(ReplayConfig):
    """Settings of a sequence replay for recurrent networks: sequence length, burn-in and overlap."""

    extra_columns: ClassVar[tuple[str, ...]] = ()
    """Names of additional columns [T, B] of fragments that sequences include."""

    length: PositiveInt = 20
    """Sequence length of a recurrent network: steps in the loss, after burn-in."""
    burn_in: NonNegativeInt = 20
    """Burn-in of a recurrent network: steps before those in the loss, which only update the recurrent state."""
    stride: PositiveInt = 10
    """Steps between possible sequence starts for a recurrent network; sequences overlap if this is below `length`."""
