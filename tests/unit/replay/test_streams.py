"""Streams of a replay, as a checkpoint brings them back."""

from __future__ import annotations

import pytest

from rlrun.replay.streams import Streams


def test_streams_of_another_number_of_workers_are_refused() -> None:
    saved = Streams(2, rows=8, columns=3, reach=1).state()
    Streams(2, rows=8, columns=3, reach=1).load_state(saved)
    for are_apart in ([], [False], [False] * 3):
        with pytest.raises(ValueError, match=f"streams of {len(are_apart)} workers, and there are 2"):
            Streams(2, rows=8, columns=3, reach=1).load_state({**saved, "are_apart": are_apart})
