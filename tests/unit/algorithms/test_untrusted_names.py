"""What a checkpoint may have imported."""

from __future__ import annotations

import pytest

from rlrun.algorithm import refuse_untrusted
from rlrun.errors import CheckpointRefused


def test_a_name_that_stands_twice_in_a_checkpoint_is_told_once() -> None:
    spec = {"algorithm": "ppo", "env": "my_lab.room:Room", "evaluation": {"env": "my_lab.room:Room"}}
    with pytest.raises(CheckpointRefused, match=r"would import my_lab\.room:Room, which"):
        refuse_untrusted(spec, trust=False)
    refuse_untrusted(spec, trust=True)
