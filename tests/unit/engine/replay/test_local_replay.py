"""Local replays of a trainee's dataflow."""

from __future__ import annotations

import pytest

from rlrun.engine.messages.errors import UsageError
from rlrun.engine.replay.local_replay import local_replay
from rlrun.engine.replay.replay_buffer import ReplayBuffer
from rlrun.engine.replay.replay_config import ReplayConfig, SequenceReplayConfig
from rlrun.engine.replay.sequences import SequenceReplay


def test_a_local_replay_stores_transitions_unless_sequences_are_requested() -> None:
    config = SequenceReplayConfig(capacity=100, length=4)
    transitions = local_replay((1, 2), 0, config, n_step=3, gamma=0.9)
    sequences = local_replay((1, 2), 0, config, n_step=3, gamma=0.9, sequences=True)
    assert isinstance(transitions.experience, ReplayBuffer)
    assert isinstance(sequences.experience, SequenceReplay)
    assert transitions.settings() == sequences.settings() == {"capacity": 100}


def test_sequences_without_a_sequence_length_are_refused_with_the_class_to_use(wording) -> None:
    with pytest.raises(UsageError) as caught:
        local_replay((0,), 0, ReplayConfig(), n_step=1, gamma=0.9, sequences=True)
    assert str(caught.value) == wording("rlrun.plugin:SequenceReplayConfig")
