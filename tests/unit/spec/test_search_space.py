import math
from typing import Any

import pytest

from rlrun.spec.expansion import count, expand, fill
from rlrun.spec.search_space import (
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
    return [drawn[("x",)] for drawn in expand({("x",): space(name)}, number, seed=0)]


def test_every_kind_is_tried_here() -> None:
    assert set(SPACES) == set(KINDS)


@pytest.mark.parametrize("name", [name for name in SPACES if name not in ("grid_search", "choice", "normal")])
def test_draws_stay_within_the_ends(name: str) -> None:
    low, high = SPACES[name][:2]
    assert all(low <= value <= high for value in draws(name))


def test_choice_draws_every_value_as_it_was_written() -> None:
    found = draws("choice")
    assert [value for value in SPACES["choice"] if value not in found] == []
    assert all(value in SPACES["choice"] for value in found)


def test_whole_kinds_draw_whole_numbers_and_randint_leaves_its_upper_end_out() -> None:
    assert set(draws("randint")) == {1, 2, 3, 4}
    assert set(draws("qrandint")) == {16, 32, 48, 64}
    assert max(draws("lograndint")) < 1000
    assert {type(value) for name in ("randint", "qrandint", "lograndint") for value in draws(name)} == {int}


def test_quantized_kinds_draw_clean_multiples() -> None:
    assert set(draws("quniform")) == {0.1, 0.2, 0.3, 0.4, 0.5}
    assert all(float(value / 0.25).is_integer() for value in draws("qloguniform"))


@pytest.mark.parametrize("name", ["loguniform", "lograndint"])
def test_logarithmic_kinds_draw_every_decade_alike(name: str) -> None:
    low, high = SPACES[name]
    below = sum(value < math.sqrt(low * high) for value in draws(name))
    assert 160 < below < 240  # 4 deviations around 200 of 400


def test_normal_has_its_mean_and_deviation() -> None:
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


def test_filling_puts_values_where_spaces_stand_and_leaves_the_data_alone() -> None:
    data = {"a": {"uniform": [0, 1]}, "b": [1, {"choice": [2, 3]}]}
    assert fill(data, {("a",): 0.5, ("b", 1): 3}) == {"a": 0.5, "b": [1, 3]}
    assert data == {"a": {"uniform": [0, 1]}, "b": [1, {"choice": [2, 3]}]}


def test_the_grid_is_gone_through_for_every_sample_with_fresh_draws() -> None:
    spaces, _ = find_spaces({"g": {"grid_search": [1, 2]}, "h": {"grid_search": ["a", "b"]}, "u": {"uniform": [0, 1]}})
    found = expand(spaces, num_samples=2, seed=3)
    assert count(spaces, 2) == len(found) == 8
    assert [(drawn[("g",)], drawn[("h",)]) for drawn in found] == [(1, "a"), (1, "b"), (2, "a"), (2, "b")] * 2
    assert len({drawn[("u",)] for drawn in found}) == 8


def test_without_spaces_there_is_one_configuration() -> None:
    assert expand({}, num_samples=1, seed=0) == [{}]


def test_draws_are_the_same_for_the_same_seed_and_differ_for_another() -> None:
    spaces, _ = find_spaces({"u": {"uniform": [0, 1]}})
    assert expand(spaces, 3, seed=1) == expand(spaces, 3, seed=1)
    assert expand(spaces, 3, seed=1) != expand(spaces, 3, seed=2)
    assert expand(spaces, 1, seed=0)[0][("u",)] == 0.14266108026745528  # a change here would change everyone's trials


def test_more_samples_and_further_spaces_leave_earlier_draws_alone() -> None:
    few, _ = find_spaces({"u": {"uniform": [0, 1]}})
    more, _ = find_spaces({"t": {"uniform": [0, 1]}, "u": {"uniform": [0, 1]}})
    before = [drawn[("u",)] for drawn in expand(few, 2, seed=0)]
    assert [drawn[("u",)] for drawn in expand(more, 5, seed=0)][:2] == before


def test_the_same_space_in_two_places_is_drawn_from_apart() -> None:
    spaces, _ = find_spaces({"t": {"uniform": [0, 1]}, "u": {"uniform": [0, 1]}})
    (drawn,) = expand(spaces, 1, seed=0)
    assert drawn[("t",)] != drawn[("u",)]


@pytest.mark.parametrize(
    ("data", "mistakes"),
    [
        ({"uniform": 3}, [(("uniform",), "must be a list (uniform: [low, high]), not 3")]),
        ({"uniform": [True, 1]}, [(("uniform", 0), "low must be a finite number, not true")]),
        ({"uniform": [0, math.inf]}, [(("uniform", 1), "high must be a finite number, not inf")]),
        ({"randint": [1, 10**30]}, [(("randint", 1), f"high must be a whole number below 2**53, not {10**30}")]),
        ({"quniform": [0, 1, 1e-300]}, [(("quniform", 2), "q (1e-300) is too small beside 0 and 1")]),
        ({"choice": []}, [(("choice",), "has no values (choice: [value, value, ...])")]),
        ({"choice": [{"a": {"uniform": [0, 1]}}]}, [(("choice", 0), "a search space inside a search space")]),
    ],
)
def test_a_mistake_in_a_space_is_told_at_its_place(data: dict[str, Any], mistakes: list[tuple[Any, str]]) -> None:
    spaces, found = find_spaces(data)
    assert spaces == {}
    assert [(mistake.location, mistake.message) for mistake in found] == mistakes


def test_equal_values_of_a_choice_weigh_it() -> None:
    assert find_spaces({"choice": [1, 1, 2]})[1] == []


def test_one_and_true_are_different_points_of_a_grid() -> None:
    assert find_spaces({"grid_search": [1, True]})[1] == []


def test_a_misspelt_space_is_recognized_and_plain_words_pass_where_anything_goes() -> None:
    assert nearly_a_space({"grid_serch": [1]}, free_form=True) == "; did you mean 'grid_search'?"
    assert nearly_a_space({"choices": [1]}, free_form=False) == "; did you mean 'choice'?"
    assert nearly_a_space({"choices": [1]}, free_form=True) == ""
    assert nearly_a_space({"gravity": [1]}, free_form=False) == ""
    assert nearly_a_space({"grid_serch": 1}, free_form=True) == ""
