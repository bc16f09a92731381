"""How much of the differences each parameter explains."""

from __future__ import annotations

import numpy as np
import pytest

from rlrun.report.importance import importance, variance_share


def test_the_share_of_variance_that_a_parameter_explains_is_epsilon_squared() -> None:
    bins, scores = np.array([0, 0, 1, 1, 2, 2]), np.array([1.0, 2, 4, 5, 9, 9])
    within, total = 0.5 + 0.5 + 0.0, float(np.sum((scores - scores.mean()) ** 2))
    assert variance_share(bins, scores) == pytest.approx(1 - (within / 3) / (total / 5))


def test_an_important_parameter_stands_out_from_chance_and_an_irrelevant_one_does_not() -> None:
    draws = np.random.default_rng(0)
    lr, noise = 10 ** draws.uniform(-5, -1, 60), draws.uniform(size=60)
    scores = -((np.log10(lr) + 3) ** 2) + 0.1 * draws.normal(size=60)  # scores are best at 1e-3 and lower on both sides
    found = importance([{"noise": float(n), "lr": float(x)} for n, x in zip(noise, lr, strict=True)], list(scores))
    assert [effect.name for effect in found.effects] == ["lr", "noise"]
    first, second = found.effects
    assert first.share > first.chance
    assert first.low < first.share < first.high
    assert first.share > 0.7
    assert second.share <= second.chance
    assert second.low == 0
    assert [count for _, count, _ in first.bins] == [12] * 5
    assert first.bins[0][0].endswith(f"to {np.sort(lr)[11]:.4g}")
    assert found.caveat == ""


def test_irrelevant_parameters_rarely_stand_out_by_chance() -> None:
    draws = np.random.default_rng(5)
    told = [
        any(
            effect.share > effect.chance
            for effect in importance([{"a": float(a), "b": int(b)} for a, b in values], list(scores)).effects
        )
        for values, scores in (
            (zip(draws.uniform(size=20), draws.integers(3, size=20), strict=True), draws.normal(size=20))
            for _ in range(60)
        )
    ]
    assert np.mean(told) < 0.12  # the nominal rate is 0.05


def test_each_choice_and_each_grid_point_is_its_own_bin(wording) -> None:
    params = [{"act": act, "lr": lr} for act in ("relu", "tanh") for lr in (1e-3, 1e-4, 1e-5) for _ in range(3)]
    found = importance(params, [float(n % 5 + 10 * (p["act"] == "tanh")) for n, p in enumerate(params)])
    bins = {effect.name: [(label, count) for label, count, _ in effect.bins] for effect in found.effects}
    assert bins == {"act": [("relu", 9), ("tanh", 9)], "lr": [("1e-05", 6), ("0.0001", 6), ("0.001", 6)]}
    assert found.caveat == wording("20")


@pytest.mark.parametrize(
    ("params", "scores", "caveat"),
    [
        ([], [], "no parameter varies"),
        ([{"a": 1}] * 20, list(range(20)), "no parameter varies"),
        ([{"a": n} for n in range(9)], list(range(9)), "9 configurations are too few to tell which parameter matters"),
        ([{"a": n} for n in range(20)], [1.0] * 20, "all configurations have the same score"),
    ],
)
def test_if_importance_cannot_be_estimated_the_reason_is_given(
    params: list[dict[str, int]], scores: list[float], caveat: str
) -> None:
    found = importance(params, scores)
    assert found.effects == []
    assert found.caveat.startswith(caveat)


def test_a_text_parameter_with_almost_unique_values_is_left_out_with_a_caveat(wording) -> None:
    params = [{"name": f"x{n}", "a": n % 2} for n in range(20)]
    found = importance(params, [float(n % 2) for n in range(20)])
    assert [effect.name for effect in found.effects] == ["a"]
    assert found.caveat == wording()


def test_missing_values_and_values_of_mixed_types_get_bins_like_any_others() -> None:
    params = [{"a": [None, "auto", 3, True][n % 4]} for n in range(40)]
    (effect,) = importance(params, [float(n % 4) for n in range(40)]).effects
    assert effect.share == pytest.approx(1)
    assert {label for label, _, _ in effect.bins} == {"null", "auto", "3", "true"}
