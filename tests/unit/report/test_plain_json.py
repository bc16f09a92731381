"""Data in a form that JSON can hold."""

from __future__ import annotations

from pathlib import Path

from rlrun.report.plain_json import fields_of, plain
from rlrun.report.statistics import Estimate


def test_values_that_json_cannot_represent_become_null_or_text() -> None:
    data = {"path": Path("a/b"), "values": (1, float("nan"), float("-inf"), True), 2: None}
    assert plain(data) == {"path": "a/b", "values": [1, None, None, True], "2": None}


def test_selected_fields_of_an_object_become_a_mapping_by_name() -> None:
    assert fields_of(Estimate(2.0, 1.0, 3.0), "value", "high") == {"value": 2.0, "high": 3.0}
