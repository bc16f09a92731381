"""What a spec says of a replay."""

from __future__ import annotations

from rlrun.config import ConfigModel, PositiveInt


class ReplayConfig(ConfigModel):
    """The experience that is kept to be learned from again."""

    capacity: PositiveInt = 100_000
    """Steps that are kept, over all workers and envs; the newest overwrite the oldest."""
