"""Replay shards that do as they are told."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rlrun.engine.replay.replay_buffer import ReplayBuffer
from rlrun.engine.replay.replay_shards import ReplayShard


class HangsOnce(ReplayShard):
    """Does not answer the tenth request for minibatches, unless another shard has already hung."""

    def __init__(self, note: Path, make_buffer: Callable[[], ReplayBuffer]) -> None:
        super().__init__(make_buffer)
        self.note = note
        self.asked = 0

    def sample(self, number: int, minibatch_size: int, env_steps: int, priorities: Any) -> Any:
        self.asked += 1
        if self.asked == 10 and not self.note.exists():
            self.note.touch()
            time.sleep(3600)
        return super().sample(number, minibatch_size, env_steps, priorities)
