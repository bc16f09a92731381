"""PB2's explore step on worlds whose best settings are known."""

import math

import numpy as np
import pytest

from rlrun.experiments.search.rules.pb2_explore import Gain, explore

BOUNDS = {"lr": (1e-5, 1e-1), "clip": (0.1, 0.5)}


def generator(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def chosen(history: list[Gain], **settings: object) -> dict[str, float]:
    settings = {"time": 1.0, "score": 0.0, "pending": [], "bounds": BOUNDS, "log_scale": ["lr"], **settings}
    return explore(history, **{"generator": generator(), **settings})


def share(lr: float) -> float:
    """Position of a learning rate between its bounds on a logarithmic scale, from 0 to 1."""
    return math.log(lr / 1e-5) / math.log(1e4)


def gains_around(best: float, times: int = 1, count: int = 12) -> list[Gain]:
    """Returns gains that are largest at a share of lr's range."""
    return [
        Gain(time, 0.0, {"lr": 1e-5 * 10 ** (4 * at), "clip": 0.3}, 1 - 4 * (at - best) ** 2)
        for time in range(times)
        for at in np.linspace(0, 1, count)
    ]


def test_log_scale_settings_are_drawn_log_uniformly_over_their_range_if_there_are_no_gains():
    draws = [chosen([], generator=generator(seed)) for seed in range(200)]
    assert all(1e-5 <= draw["lr"] <= 1e-1 and 0.1 <= draw["clip"] <= 0.5 for draw in draws)
    assert 0.4 < np.median([share(draw["lr"]) for draw in draws]) < 0.6
    assert 0.25 < np.median([draw["clip"] for draw in draws]) < 0.35


def test_settings_that_brought_gains_are_chosen_again():
    history = gains_around(0.7, times=3)
    draws = [chosen(history, bounds={"lr": BOUNDS["lr"]}, generator=generator(seed))["lr"] for seed in range(5)]
    assert [share(lr) for lr in draws] == pytest.approx([0.7] * 5, abs=0.1)


def test_the_same_generator_and_the_same_gains_in_any_order_give_the_same_settings():
    history = gains_around(0.3, times=2)
    assert chosen(history) == chosen(history[::-1]) == chosen([*history[5:], *history[:5]])
    assert chosen(history, generator=generator(1)) != chosen(history)


def test_settings_stay_within_their_bounds_even_if_the_best_value_lies_outside_them():
    low, high = (chosen(gains_around(best), bounds={"lr": (1e-5, 1e-1)})["lr"] for best in (-1.0, 2.0))
    assert (low, high) == (1e-5, 1e-1)


def test_members_of_one_generation_spread_over_unexplored_settings():
    bounds, history = {"lr": BOUNDS["lr"]}, gains_around(0.5, count=2)
    taken: list[dict[str, float]] = []
    for _ in range(3):
        taken.append(chosen(history, pending=taken, bounds=bounds))
    places = sorted(share(draw["lr"]) for draw in taken)
    assert min(np.diff(places)) > 0.1
    assert chosen(history, pending=taken[:0], bounds=bounds) == taken[0]


def test_missing_and_identical_gains_are_handled():
    history = [Gain(0, math.nan, {"lr": 1e-3, "clip": 0.2}, 1.0), Gain(0, 1.0, {"lr": 1e-3, "clip": 0.2}, math.inf)]
    assert chosen(history) == chosen([])
    same = [Gain(0, 5.0, {"lr": 1e-3, "clip": 0.2}, 1.0)] * 4
    assert set(chosen(same)) == {"lr", "clip"}


def test_past_settings_outside_the_bounds_are_clipped():
    history = [Gain(0, 0.0, {"lr": 1.0, "clip": 0.7}, 1.0), Gain(0, 0.0, {"lr": 1e-7, "clip": 0.0}, 0.0)]
    assert chosen(history)["lr"] <= 1e-1


def mean_distance(seed: int, learns: bool) -> float:
    """Runs a population of 6 whose best lr moves from 0.2 to 0.8 of its range; returns how far choices are from it.

    In each generation, the two worst members continue from the best one with another lr.
    """
    draws = generator(seed)
    bounds = {"lr": BOUNDS["lr"]}
    best_at = np.linspace(0.2, 0.8, 13)
    scores = np.zeros(6)
    params = [chosen([], bounds=bounds, generator=draws) for _ in scores]
    history: list[Gain] = []
    distances = []
    for time, best in enumerate(best_at[:-1]):
        for member in range(6):
            change = 1 - 4 * (share(params[member]["lr"]) - best) ** 2 + 0.05 * draws.standard_normal()
            history.append(Gain(time, scores[member], params[member], change))
            scores[member] += change
        order = np.argsort(scores)
        taken: list[dict[str, float]] = []
        for member in order[:2]:
            scores[member] = scores[order[-1]]
            params[member] = chosen(
                history if learns else [],
                time=time + 1,
                score=scores[member],
                pending=taken,
                bounds=bounds,
                generator=draws,
            )
            taken.append(params[member])
            distances.append(abs(share(params[member]["lr"]) - best_at[time + 1]))
    return float(np.mean(distances[len(distances) // 3 :]))


def test_choices_follow_a_moving_optimum_better_than_random_choices_do():
    modelled = [mean_distance(seed, learns=True) for seed in range(3)]
    random = [mean_distance(seed, learns=False) for seed in range(3)]
    assert max(modelled) < min(random)
    assert np.mean(modelled) < 0.6 * np.mean(random)
