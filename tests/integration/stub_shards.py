"""Replay shards that do as they are told."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rlrun.replay.replay_shards import ReplayShard, ShardConfig


@dataclass(frozen=True)
class HangingConfig:
    """A shard's config, and where it is noted that one has hung."""

    shard: ShardConfig
    note: Path


class HangsOnce(ReplayShard):
    """Does not answer the tenth time that minibatches are asked for, unless another one has hung already."""

    def __init__(self, config: HangingConfig) -> None:
        super().__init__(config.shard)
        self.note = config.note
        self.asked = 0

    def sample(self, number: int, minibatch_size: int, env_steps: int, priorities: Any) -> Any:
        self.asked += 1
        if self.asked == 10 and not self.note.exists():
            self.note.touch()
            time.sleep(3600)
        return super().sample(number, minibatch_size, env_steps, priorities)
