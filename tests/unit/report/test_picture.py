"""Curves in image files."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from rlrun.report.curves import Curve
from rlrun.report.picture import COLORS, GREY, draw_picture


def curve(number: int, label: str = "", *, seeds: int = 1, whole_until: float = 100.0) -> Curve:
    xs = np.linspace(0, 100, 11)
    ys = np.stack([xs * (number + 1) + seed for seed in range(seeds)])
    return Curve(label or f"lr={number}", xs, ys, whole_until, float(ys[:, -1].mean()))


def drawn_picture(output: Path, curves: list[Curve]) -> str:
    draw_picture(curves, "episode_return_mean", "env_steps", output)
    return output.read_text()


def comments(svg: str) -> list[str]:
    """Returns the drawn texts, which Matplotlib repeats in comments."""
    return re.findall(r"<!-- (.*?) -->", svg)


def test_every_curve_has_a_color_and_its_number_of_seeds_in_the_legend(tmp_path: Path) -> None:
    text = drawn_picture(tmp_path / "new" / "a.svg", [curve(0, seeds=3), curve(1)])
    assert {"lr=0 (3 seeds)", "lr=1 (1 seed)", "env steps"} <= {*comments(text)}
    assert COLORS[0] in text
    assert COLORS[1] in text
    assert GREY not in text


def test_with_more_curves_than_colors_only_the_best_are_colored(tmp_path: Path) -> None:
    text = drawn_picture(tmp_path / "a.svg", [curve(number) for number in range(11)])
    curves = [f"lr={number} (1 seed)" for number in range(10, 2, -1)]
    assert [comment for comment in comments(text) if "lr=" in comment or "others" in comment] == ["3 others", *curves]


def test_a_curve_is_dashed_where_some_of_its_seeds_have_ended(tmp_path: Path) -> None:
    assert "stroke-dasharray" not in drawn_picture(tmp_path / "whole.svg", [curve(0, seeds=2)])
    assert "stroke-dasharray" in drawn_picture(tmp_path / "ended.svg", [curve(0, seeds=2, whole_until=50)])


def test_a_long_label_is_truncated_and_placed_below_the_axes(tmp_path: Path, wording) -> None:
    def height(text: str) -> float:
        found = re.search(r'height="([\d.]+)pt"', text)
        assert found is not None
        return float(found[1])

    short, long = (
        drawn_picture(tmp_path / "s.svg", [curve(0)]),
        drawn_picture(tmp_path / "l.svg", [curve(0, "x" * 300)]),
    )
    assert wording("x" * 99) in long.splitlines()
    assert height(long) > height(short)
