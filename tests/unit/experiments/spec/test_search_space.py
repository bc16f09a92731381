import math
from typing import Any

import pytest

from rlrun.experiments.spec.expansion import draw, expand
from rlrun.experiments.spec.search_space import (
    KINDS,
    SearchSpace,
    find_spaces,
    is_search_space,
    nearly_a_space,
)

SPACES: dict[str, list[Any]] = {
    "grid_search": [1, 2, 3],
    "choice": ["a", [1, 2], None],
    "uniform": [0.9, 0.99],
    "quniform": [0.1, 0.5, 0.1],
    "loguniform": [1e-5, 1e-1],
    "qloguniform": [0.25, 8, 0.25],
    "randint": [1, 5],
    "qrandint": [16, 64, 16],
    "lograndint": [1, 1000],
    "normal": [0.0, 2.0],
}


def space(name: str) -> SearchSpace:
    return SearchSpace(KINDS[name], tuple(SPACES[name]))


def draws(name: str, number: int = 400) -> list[Any]:
    return [draw(space(name), ("x",), seed=0, index=index) for index in range(number)]


def test_every_kind_of_search_space_is_tested_here() -> None:
    assert set(SPACES) == set(KINDS)


@pytest.mark.parametrize("name", [name for name in SPACES if name not in ("grid_search", "choice", "normal")])
def test_draws_stay_within_the_bounds_of_their_search_space(name: str) -> None:
    low, high = SPACES[name][:2]
    assert all(low <= value <= high for value in draws(name))


def test_a_choice_draws_each_of_its_options_unchanged() -> None:
    found = draws("choice")
    assert [value for value in SPACES["choice"] if value not in found] == []
    assert all(value in SPACES["choice"] for value in found)


def test_integer_spaces_draw_integers_and_randint_excludes_its_upper_bound() -> None:
    assert set(draws("randint")) == {1, 2, 3, 4}
    assert set(draws("qrandint")) == {16, 32, 48, 64}
    assert max(draws("lograndint")) < 1000
    assert {type(value) for name in ("randint", "qrandint", "lograndint") for value in draws(name)} == {int}


def test_quantized_spaces_draw_exact_multiples_of_their_step() -> None:
    assert set(draws("quniform")) == {0.1, 0.2, 0.3, 0.4, 0.5}
    assert all(float(value / 0.25).is_integer() for value in draws("qloguniform"))


@pytest.mark.parametrize("name", ["loguniform", "lograndint"])
def test_logarithmic_spaces_draw_uniformly_on_a_log_scale(name: str) -> None:
    low, high = SPACES[name]
    below = sum(value < math.sqrt(low * high) for value in draws(name))
    assert 160 < below < 240  # 200 of 400 are expected, with 4 standard deviations on each side


def test_draws_from_a_normal_space_have_its_mean_and_standard_deviation() -> None:
    found = draws("normal")
    mean = sum(found) / len(found)
    assert abs(mean) < 4 * 2 / math.sqrt(len(found))
    assert 1.7 < math.sqrt(sum((value - mean) ** 2 for value in found) / len(found)) < 2.3


def test_a_search_space_is_a_mapping_with_one_known_key() -> None:
    assert is_search_space({"uniform": [0, 1]})
    assert not is_search_space({"uniform": [0, 1], "q": 1})
    assert not is_search_space({"unifrm": [0, 1]})
    assert not is_search_space(["uniform"])


def test_spaces_are_found_at_any_depth_with_their_locations() -> None:
    data = {"lr": [[0, {"grid_search": [1e-3, 1e-4]}], [100, 0]], "model": {"hiddens": {"choice": [[64], [32]]}}}
    spaces, mistakes = find_spaces(data, ("config",))
    assert mistakes == []
    assert {location: found.to_data() for location, found in spaces.items()} == {
        ("config", "lr", 0, 1): {"grid_search": [1e-3, 1e-4]},
        ("config", "model", "hiddens"): {"choice": [[64], [32]]},
    }


@pytest.mark.parametrize(
    ("data", "mistakes"),
    [
        ({"uniform": 3}, [(("uniform",), "must be a list (uniform: [low, high]), not 3")]),
        ({"uniform": [True, 1]}, [(("uniform", 0), "low must be a finite number, not true")]),
        ({"uniform": [0, math.inf]}, [(("uniform", 1), "high must be a finite number, not inf")]),
        ({"randint": [1, 10**30]}, [(("randint", 1), f"high must be a whole number below 2**53, not {10**30}")]),
        ({"quniform": [0, 1, 1e-300]}, [(("quniform", 2), "q (1e-300) is too small for the range 0 to 1")]),
        ({"choice": []}, [(("choice",), "has no values (choice: [value, value, ...])")]),
        ({"choice": [{"a": {"uniform": [0, 1]}}]}, [(("choice", 0), "a search space inside a search space")]),
    ],
)
def test_mistakes_in_a_search_space_are_reported_with_their_location(
    data: dict[str, Any], mistakes: list[tuple[Any, str]]
) -> None:
    spaces, found = find_spaces(data)
    assert spaces == {}
    assert [(mistake.location, mistake.message) for mistake in found] == mistakes


@pytest.mark.parametrize(
    ("space", "inside", "outside"),
    [
        ({"choice": [1, "a", [1, 2]]}, [1, 1.0, "a", [1, 2]], [2, True, [2, 1], None]),
        ({"uniform": [0, 1]}, [0, 0.5, 1], [-0.1, 1.1, True, "a", None, [[0, 0.5]]]),
        ({"randint": [1, 5]}, [1, 4], [0, 6]),
        ({"normal": [0, 1]}, [-100, 100.0], ["a", None]),
    ],
)
def test_a_search_space_tells_which_values_lie_within_it(space: Any, inside: list[Any], outside: list[Any]) -> None:
    made = find_spaces(space)[0][()]
    assert all(made.holds(value) for value in inside)
    assert not any(made.holds(value) for value in outside)


def test_a_value_listed_more_than_once_in_a_choice_is_drawn_more_often() -> None:
    spaces, mistakes = find_spaces({"choice": [1, 1, 2]})
    assert mistakes == []
    found = [draw(spaces[()], ("x",), seed=0, index=index) for index in range(400)]
    assert 229 < found.count(1) < 304  # 267 are expected, with 4 standard deviations on each side


def test_the_values_1_and_true_are_two_different_points_of_a_grid() -> None:
    spaces, mistakes = find_spaces({"grid_search": [1, True]})
    assert mistakes == []
    (first,), (second,) = (values.values() for values in expand(spaces, num_samples=1, seed=0))
    assert first is not True
    assert (first, second) == (1, True)


def test_a_misspelled_search_space_is_recognized_and_ordinary_mappings_are_not_mistaken_for_one(wording) -> None:
    assert nearly_a_space({"grid_serch": [1]}, free_form=True) == wording("grid_search")
    assert nearly_a_space({"choices": [1]}, free_form=False) == wording("choice")
    assert nearly_a_space({"choices": [1]}, free_form=True) == ""
    assert nearly_a_space({"gravity": [1]}, free_form=False) == ""
    assert nearly_a_space({"grid_serch": 1}, free_form=True) == ""
