"""Curves as text."""

from __future__ import annotations

import re

import numpy as np
import pytest

from rlrun.report.terminal_plot import COLORS, Line, draw, nice_ticks, tick_text

RISING = Line("rising", np.array([0.0, 1000.0]), np.array([0.0, 100.0]))
FALLING = Line("falling", np.array([0.0, 1000.0]), np.array([100.0, 0.0]))


def picture(*lines: Line, **said: object) -> list[str]:
    options = {"x_name": "env steps", "y_name": "return", "width": 60, "height": 10, **said}
    return draw(lines, **options).splitlines()  # type: ignore[arg-type]


def test_a_rising_line_goes_from_the_lower_left_to_the_upper_right() -> None:
    body = [row.partition("│")[2] or row.partition("┤")[2] for row in picture(RISING)[1:11]]
    firsts = [next((n for n, mark in enumerate(row) if mark != " "), None) for row in body]
    assert firsts == sorted(firsts, key=lambda n: -1 if n is None else -n)
    assert firsts[-1] == 0
    assert body[0].rstrip().endswith("a")


def test_axes_of_a_plot_have_names_and_round_numbers() -> None:
    text = picture(RISING, FALLING)
    assert text[0].strip() == "return"
    assert any(line.startswith("100 ┤") for line in text)
    assert "1k" in text[-5]
    assert text[-4].endswith("env steps")
    assert [line.strip() for line in text[-2:]] == ["a  rising", "b  falling"]


def test_no_line_of_a_plot_is_wider_than_the_terminal() -> None:
    for width in (30, 60, 100):
        assert max(map(len, picture(RISING, FALLING, width=width)[:-2])) <= width


def test_output_without_color_has_no_escapes_and_output_with_color_has_one_color_per_curve() -> None:
    assert "\033" not in "\n".join(picture(RISING, FALLING))
    text = "\n".join(picture(RISING, FALLING, color=True))
    assert set(re.findall(r"\033\[(\d+)m", text)) == {str(COLORS[0]), str(COLORS[1]), "0"}


def test_letters_of_curves_that_end_at_the_same_point_are_placed_side_by_side() -> None:
    text = picture(RISING, RISING, RISING)
    assert sum(line.rstrip().endswith("abc") for line in text) == 1


def test_the_letter_of_a_curve_that_ends_early_is_placed_at_its_end() -> None:
    short = Line("short", np.array([0.0, 300.0]), np.array([50.0, 50.0]))
    rows = [line for line in picture(RISING, short) if re.search(r"[⠀-⣿]b", line)]
    assert len(rows) == 1
    assert rows[0].index("b") < 35


def test_values_that_are_missing_are_not_drawn(wording) -> None:
    late = Line("late", np.array([0.0, 500.0, 1000.0]), np.array([np.nan, 1.0, 2.0]))
    nothing = Line("nothing", np.array([0.0]), np.array([np.nan]))
    text = "\n".join(picture(late, nothing))
    assert "a  late" in text
    assert "nothing" not in text
    assert picture(nothing) == wording()


@pytest.mark.parametrize("values", [[3.0, 3.0], [0.0, 0.0], [-5.0, -5.0]])
def test_a_flat_curve_can_be_drawn(values: list[float]) -> None:
    assert any(
        "⠤" in line or "⠒" in line or "⠉" in line or "⣀" in line
        for line in picture(Line("x", np.array([0.0, 1.0]), np.array(values)))
    )


def test_a_curve_of_a_single_point_can_be_drawn() -> None:
    text = "\n".join(picture(Line("x", np.array([100.0]), np.array([5.0]))))
    assert "a  x" in text


def test_ticks_are_at_round_numbers_and_have_short_labels() -> None:
    assert nice_ticks(0.0, 1.0, 5) == [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
    assert nice_ticks(-250, 260, 3) == [-200.0, 0.0, 200.0]
    assert [tick_text(value) for value in (0, 1500, -2e6, 0.125)] == ["0", "1.5k", "-2M", "0.125"]
