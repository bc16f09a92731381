"""Plain text tables."""

from __future__ import annotations

import pytest

from rlrun.cli.tables import cell_text, duration, table


def test_numbers_are_right_aligned_and_words_left_aligned() -> None:
    text = table(["run", "steps", "return"], [["a", 10, 1.5], ["long-name", 20_000, None]])
    assert text.splitlines() == [
        "run         steps  return",
        "a              10     1.5",
        "long-name  20,000       -",
    ]


def test_a_table_without_rows_consists_of_its_headings() -> None:
    assert table(["run", "steps"], []) == "run  steps"


def test_a_narrow_terminal_cuts_the_widest_column() -> None:
    text = table(["name", "n"], [["000-lr=0.001-seed=0", 5]], width=13)
    assert text.splitlines() == ["name        n", "000-lr=0.…  5"]
    assert all(len(line) <= 13 for line in text.splitlines())


def test_a_piped_table_is_never_cut() -> None:
    assert "x" * 500 in table(["name"], [["x" * 500]], width=None)


def test_expendable_columns_are_dropped_before_any_column_is_cut(wording) -> None:
    headings, rows = ["name", "time", "size", "mark"], [["abcdefgh", "12345678", "12345678", "x"]]
    assert table(headings, rows, 34, ["size", "time"]).splitlines() == wording("12345678")
    assert table(headings, rows, 33, ["size", "time"]).splitlines() == [
        "name      time      mark",
        "abcdefgh  12345678  x",
    ]
    assert table(headings, rows, 12, ["size", "time"]).splitlines() == ["name    mark", "abcde…  x"]


def test_columns_keep_a_minimum_width_on_extremely_narrow_terminals() -> None:
    assert table(["name", "other"], [["abcdefghij", "klmnopqrst"]], width=3).splitlines()[1] == "abcde…  klmno…"


def test_the_lines_of_a_cell_are_joined_into_one() -> None:
    assert cell_text("a\n  b") == "a b"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, "0.0 s"),
        (9.94, "9.9 s"),
        (9.96, "10 s"),
        (59.4, "59 s"),
        (59.6, "1 min 00 s"),
        (3599.6, "1 h 00 min"),
        (90_000, "1 d 01 h"),
    ],
)
def test_durations_never_show_60_seconds_or_60_minutes(seconds: float, text: str) -> None:
    assert duration(seconds) == text
