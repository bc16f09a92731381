"""BOHB compared with the formulas of its paper (arXiv:1807.01774), written with plain loops."""

import math
from typing import Any

import numpy as np
import pytest

from rlrun.experiments.search.searchers.bohb import RANDOM_FRACTION, BohbSearcher, Density, model_budget, split
from rlrun.experiments.search.searchers.dimension import dimensions_of
from rlrun.experiments.search.searchers.searcher import History
from rlrun.experiments.spec.expansion import expand
from rlrun.experiments.spec.search_space import find_spaces

SPACES = {"lr": {"loguniform": [1e-4, 1e-2]}, "net": {"choice": ["a", "b", "c"]}}
LEAST = 3  # N_min = D + 1


def history_of(configurations: int) -> History:
    spaces = find_spaces(SPACES)[0]
    history = History(dimensions_of(spaces), "max")
    history.configurations.update(enumerate(expand(spaces, configurations, seed=0)))
    return history


def observed(budgets: dict[float, list[float]], configurations: int = 40) -> History:
    """A history in which configurations 0, 1, ... have the scores listed for each budget."""
    history = history_of(configurations)
    for budget, scores in budgets.items():
        for number, score in enumerate(scores):
            history.observations.setdefault(number, {})[budget] = score
    return history


def modelling_seed() -> int:
    """A seed with which BOHB does not draw at random."""
    return next(seed for seed in range(99) if np.random.default_rng(seed).uniform() >= RANDOM_FRACTION)


def plain_bandwidths(points: list[list[float]]) -> list[float]:
    """The normal reference rule for the two dimensions of SPACES."""
    scale = 1.06 * len(points) ** (-1 / (4 + 2))
    numbers = [point[0] for point in points]
    mean = sum(numbers) / len(numbers)
    deviation = math.sqrt(sum((number - mean) ** 2 for number in numbers) / len(numbers))
    differing = sum(one[1] != other[1] for one in points for other in points) / len(points) ** 2
    return [max(1e-3, scale * deviation), min(max(1e-3, scale * math.sqrt(differing / 2)), 2 / 3)]


def plain_density(points: list[list[float]], at: list[float]) -> float:
    number_width, option_width = plain_bandwidths(points)
    total = 0.0
    for point in points:
        z = (at[0] - point[0]) / number_width
        gaussian = math.exp(-z * z / 2) / (number_width * math.sqrt(2 * math.pi))
        total += gaussian * (1 - option_width if at[1] == point[1] else option_width / 2)
    return total / len(points)


def points_of(history: History, numbers: list[int]) -> list[list[float]]:
    """Logarithms of lr from 0 to 1, and indices of net."""
    values = [history.configurations[number] for number in numbers]
    return [[(math.log10(each[("lr",)]) + 4) / 2, "abc".index(each[("net",)])] for each in values]


def test_the_largest_budget_with_enough_observations_is_the_one_modelled() -> None:
    budgets: dict[float, list[float]] = {1: [0.0] * 20, 3: [0.0] * (LEAST + 2), 9: [0.0] * (LEAST + 1)}
    assert model_budget(observed(budgets)) == 3
    budgets[9].append(0.0)
    assert model_budget(observed(budgets)) == 9


def test_draws_are_random_until_there_are_enough_observations_for_a_model() -> None:
    history = observed({1: [1.0] * (LEAST + 1)})
    assert model_budget(history) is None
    for seed in range(5):
        generator = np.random.default_rng(seed)
        generator.uniform()
        drawn = {each.location: each.space.draw(generator) for each in history.dimensions}
        assert BohbSearcher().propose(history, seed) == drawn


def test_failed_trials_do_not_count_as_observations_of_a_budget() -> None:
    history = observed({1: [0.0] * 10, 3: [0.0] * (LEAST + 1)})
    history.scores.update(dict.fromkeys(range(20, 30)))
    assert model_budget(history) == 1


def test_final_scores_are_modelled_if_there_are_no_intermediate_results() -> None:
    history = history_of(8)
    history.scores.update({number: float(number) for number in range(LEAST + 1)})
    history.scores[7] = None
    assert model_budget(history) is None
    history.scores[6] = 6.0
    assert model_budget(history) == math.inf


@pytest.mark.parametrize("number", [5, 6, 7, 20, 21, 100])
def test_configurations_are_split_as_in_equation_3_of_the_paper(number: int) -> None:
    good = max(LEAST, math.floor(0.15 * number))
    assert split(number, LEAST) == (good, max(LEAST, number - good))


def test_the_density_matches_equation_2_of_the_paper() -> None:
    points = points_of(history_of(15), list(range(15)))
    density = Density.fit(np.array(points), [0, 3])
    assert density.bandwidths == pytest.approx(plain_bandwidths(points))
    places = [[0.0, 0.0], [0.31, 1.0], [0.5, 2.0], [1.0, 1.0]]
    assert density.at(np.array(places)) == pytest.approx([plain_density(points, place) for place in places])


def test_the_density_over_the_options_of_a_choice_adds_up_to_one() -> None:
    density = Density.fit(np.array([[0.0], [0.0], [2.0], [3.0]]), [4])
    assert density.at(np.array([[0.0], [1.0], [2.0], [3.0]])).sum() == pytest.approx(1)


def test_equal_points_get_the_minimum_bandwidth_without_an_error() -> None:
    density = Density.fit(np.array([[0.5, 1.0]] * 4), [0, 3])
    assert list(density.bandwidths) == [1e-3, 1e-3]
    drawn = density.sample(200, np.random.default_rng(0))
    assert np.isfinite(density.at(drawn)).all()


def test_samples_are_drawn_with_three_times_the_bandwidth_and_stay_in_range() -> None:
    points = np.array([[0.5, 0.0], [0.52, 0.0], [0.48, 0.0], [0.5, 1.0]])
    density = Density.fit(points, [0, 3])
    drawn = density.sample(20_000, np.random.default_rng(0))
    deviation = math.sqrt((3 * density.bandwidths[0]) ** 2 + float(np.var(points[:, 0])))
    assert float(np.std(drawn[:, 0])) == pytest.approx(deviation, rel=0.03)
    change = min(3 * density.bandwidths[1], 2 / 3)
    assert float(np.mean(drawn[:, 1] == 0)) == pytest.approx(0.75 * (1 - change) + 0.25 * change / 2, abs=0.02)
    edge = Density.fit(np.array([[0.0, 0.0], [1.0, 2.0]] * 3), [0, 3]).sample(1000, np.random.default_rng(0))
    assert edge[:, 0].min() >= 0
    assert edge[:, 0].max() <= 1
    assert set(edge[:, 1]) == {0.0, 1.0, 2.0}


def test_the_sample_with_the_highest_density_ratio_is_suggested() -> None:
    scores = [float(value) for value in np.random.default_rng(5).normal(size=30)]
    history = observed({27: scores})
    seed = modelling_seed()
    ranked = sorted(range(30), key=lambda number: -scores[number])
    good, bad = points_of(history, ranked[:4]), points_of(history, ranked[4:])
    generator = np.random.default_rng(seed)
    generator.uniform()
    samples = Density.fit(np.array(good), [0, 3]).sample(64, generator)
    best = max(samples.tolist(), key=lambda place: plain_density(good, place) / plain_density(bad, place))
    suggested = BohbSearcher().propose(history, seed)
    assert suggested[("lr",)] == pytest.approx(10 ** (2 * best[0] - 4))
    assert suggested[("net",)] == "abc"[int(best[1])]


def test_a_failure_counts_as_worse_than_all_scores_of_its_budget() -> None:
    scores = [float(value) for value in np.random.default_rng(5).normal(size=12)]
    failing = observed({1: scores})
    failing.scores[12] = None
    worst = observed({1: [*scores, -1e9]})
    seed = modelling_seed()
    assert BohbSearcher().propose(failing, seed) == BohbSearcher().propose(worst, seed)


def test_scores_of_different_budgets_are_not_mixed() -> None:
    scores = [float(value) for value in np.random.default_rng(5).normal(size=12)]
    seed = modelling_seed()
    alone = observed({9: scores})
    with_others = observed({9: scores, 1: [-score for score in scores] * 2, 27: [5.0]})
    assert BohbSearcher().propose(with_others, seed) == BohbSearcher().propose(alone, seed)


def test_a_third_of_the_suggestions_are_random() -> None:
    history = observed({1: [float(number) for number in range(20)]})
    random = 0
    for seed in range(300):
        generator = np.random.default_rng(seed)
        generator.uniform()
        drawn: dict[Any, Any] = {each.location: each.space.draw(generator) for each in history.dimensions}
        random += BohbSearcher().propose(history, seed) == drawn
    assert 70 < random < 130  # 100 are expected, with 4 standard deviations on each side
