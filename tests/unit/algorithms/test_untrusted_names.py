"""What a checkpoint may have imported."""

from __future__ import annotations

import pytest

from rlrun.errors import CheckpointRefused
from rlrun.training.checkpointing import refuse_untrusted


def test_a_name_that_stands_twice_in_a_checkpoint_is_told_once() -> None:
    spec = {"algorithm": "ppo", "env": "my_lab.room:Room", "evaluation": {"env": "my_lab.room:Room"}}
    with pytest.raises(CheckpointRefused, match=r"would import my_lab\.room:Room, which"):
        refuse_untrusted(spec, trust=False)
    refuse_untrusted(spec, trust=True)
