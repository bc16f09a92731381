"""What a spec says of a replay."""

from __future__ import annotations

from rlrun.config import ConfigModel, NonNegativeFloat, PositiveFloat, PositiveInt, Schedule


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
