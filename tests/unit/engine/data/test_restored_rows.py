"""Rows of a checkpoint must match the first new rows that they are joined with."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rlrun.engine.data.restored_rows import RestoredRows
from rlrun.engine.messages.errors import CheckpointError


def rows_of_zeros(length: int, slots: int = 2, width: int = 3) -> dict[str, Any]:
    return {
        "obs": {"a": np.zeros((length + 1, slots, width), np.float32)},
        "valid": np.ones((length, slots), np.bool_),
        "history": np.zeros((4, slots), np.float32),
    }


def test_restored_rows_may_differ_in_length_along_the_free_axis() -> None:
    restored = RestoredRows()
    restored.load([rows_of_zeros(5), rows_of_zeros(1)])
    restored.compare(rows_of_zeros(3))
    side_by_side = RestoredRows(free_axis=1)
    side_by_side.load([rows_of_zeros(5, slots=7)])
    side_by_side.compare({**rows_of_zeros(5), "history": np.zeros((4, 7), np.float32)})


@pytest.mark.parametrize(
    ("held", "said"),
    [
        (rows_of_zeros(5, width=4), r"obs/a is float32 \[1, 2, 4\] in the checkpoint, but float32 \[1, 2, 3\]"),
        (rows_of_zeros(5, slots=3), r"history is float32 \[4, 3\] in the checkpoint, but float32 \[4, 2\]"),
        ({**rows_of_zeros(5), "more": np.zeros((5, 2))}, r"more is float64 \[0, 2\] in the"),
        ({name: rows_of_zeros(5)[name] for name in ("valid", "history")}, "do not match the env"),
        ({**rows_of_zeros(5), "valid": np.ones((5, 2))}, r"valid is float64 \[0, 2\] in"),
        ({**rows_of_zeros(5), "obs": "text"}, "rows are invalid: .*'str' object"),
        ({}, "rows are invalid: .*'valid'"),
    ],
    ids=["width", "slots", "more", "less", "dtype", "text", "nothing"],
)
def test_restored_rows_that_do_not_match_the_first_collected_rows_are_refused(held: dict[str, Any], said: str) -> None:
    restored = RestoredRows()
    restored.load([rows_of_zeros(2), held])
    with pytest.raises(CheckpointError, match=said):
        restored.compare(rows_of_zeros(3))


def test_restored_rows_are_compared_only_with_the_first_collected_rows() -> None:
    restored = RestoredRows()
    restored.load([rows_of_zeros(2)])
    restored.compare(rows_of_zeros(3))
    restored.compare({})
