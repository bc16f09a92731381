import json
import math
from collections import Counter
from typing import Any

import numpy as np
import pytest

from rlrun.experiments.search.searchers.dimension import Dimension, dimensions_of
from rlrun.experiments.spec.expansion import expand
from rlrun.experiments.spec.search_space import KINDS, SearchSpace, find_spaces, multiples

SPACES: dict[str, list[Any]] = {
    "grid_search": [1, 2, 3],
    "choice": ["a", [1, 2], {"b": [None]}, None, True, 1, 1.0],
    "uniform": [0.9, 0.99],
    "quniform": [0.1, 0.5, 0.1],
    "loguniform": [1e-5, 1e-1],
    "qloguniform": [0.25, 8, 0.25],
    "randint": [1, 5],
    "qrandint": [16, 64, 16],
    "lograndint": [1, 40],
    "normal": [3.0, 2.0],
}
NUMBERS = [name for name in SPACES if name not in ("grid_search", "choice")]


def dimension(kind: str, arguments: list[Any] | None = None) -> Dimension:
    space = SearchSpace(KINDS[kind], tuple(SPACES[kind] if arguments is None else arguments))
    return dimensions_of({("config", "x"): space})[0]


def same(left: Any, right: Any) -> bool:
    return type(left) is type(right) and left == right


def test_these_tests_cover_every_kind_of_search_space() -> None:
    assert set(SPACES) == set(KINDS)


@pytest.mark.parametrize("kind", SPACES)
def test_values_drawn_from_a_search_space_survive_a_round_trip_through_coordinates(kind: str) -> None:
    drawn = dimension(kind)
    for values in expand({("x",): drawn.space}, 200, seed=1):
        value = values[("x",)]
        back = drawn.value(drawn.coordinate(value))
        assert same(back, value) if kind != "normal" else back == pytest.approx(value, rel=1e-6)


@pytest.mark.parametrize("kind", SPACES)
def test_values_of_a_search_space_survive_a_round_trip_through_json(kind: str) -> None:
    drawn = dimension(kind)
    for values in expand({("x",): drawn.space}, 50, seed=1):
        assert same(drawn.read(json.loads(json.dumps(values[("x",)]))), values[("x",)])


@pytest.mark.parametrize("kind", NUMBERS)
def test_every_point_of_the_unit_interval_maps_to_a_value_within_the_bounds(kind: str) -> None:
    drawn = dimension(kind)
    low, high = SPACES[kind][:2] if kind != "normal" else (-math.inf, math.inf)
    values = [drawn.value(drawn.from_unit(place)) for place in np.linspace(0, 1, 501)]
    assert all(low <= value <= high for value in values)
    assert values == sorted(values)
    assert {type(value) for value in values} == {int if KINDS[kind].whole else float}


@pytest.mark.parametrize("kind", ["quniform", "qloguniform", "randint", "qrandint", "lograndint"])
def test_the_unit_interval_maps_to_exactly_the_values_that_can_be_drawn_from_the_space(kind: str) -> None:
    drawn = dimension(kind)
    possible = {values[("x",)] for values in expand({("x",): drawn.space}, 3000, seed=0)}
    assert {drawn.value(drawn.from_unit(place)) for place in np.linspace(0, 1, 3001)} == possible


@pytest.mark.parametrize("kind", ["quniform", "qloguniform", "randint", "qrandint"])
def test_uniform_points_of_the_unit_interval_give_values_as_often_as_draws_from_the_space(kind: str) -> None:
    drawn = dimension(kind)
    number = 4000
    even = Counter(drawn.value(drawn.from_unit((place + 0.5) / number)) for place in range(number))
    for value, found in Counter(draw[("x",)] for draw in expand({("x",): drawn.space}, number, seed=0)).items():
        assert abs(found - even[value]) < 4.5 * math.sqrt(even[value])


def test_log_spaces_give_equal_room_to_each_decade_and_normal_spaces_to_each_quantile() -> None:
    assert dimension("loguniform").from_unit(0.25) == pytest.approx(1e-4)
    assert dimension("loguniform").unit(1e-2) == pytest.approx(0.75)
    assert dimension("normal").value(0.5) == 3.0
    assert dimension("normal").value(0.8413447460685429) == pytest.approx(5.0)


def test_extreme_values_of_a_normal_space_are_clipped_to_the_last_coordinate() -> None:
    normal = dimension("normal")
    assert normal.coordinate(1e6) == normal.high
    assert normal.value(1.0) == pytest.approx(3.0 + 6 * 2.0, rel=0.01)


def test_options_that_compare_equal_in_python_are_distinguished() -> None:
    choice = dimension("choice")
    assert [choice.coordinate(option) for option in SPACES["choice"]] == list(range(len(SPACES["choice"])))


def test_an_option_that_is_listed_twice_keeps_both_of_its_indices() -> None:
    choice = dimension("choice", ["a", "a", "b"])
    assert [choice.value(index) for index in range(3)] == ["a", "a", "b"]


@pytest.mark.parametrize(
    ("kind", "arguments", "value"),
    [("choice", [[64, 64]], [64, 64]), ("randint", [3, 4], 3), ("quniform", [0.3, 0.35, 0.1], 0.3)],
)
def test_a_search_space_with_a_single_value_is_constant(kind: str, arguments: list[Any], value: Any) -> None:
    constant = dimension(kind, arguments)
    assert constant.is_constant
    assert constant.value(constant.first) == value


def test_a_search_space_with_several_values_is_not_constant() -> None:
    assert not any(dimension(kind).is_constant for kind in SPACES)


def test_a_quantized_log_range_may_have_zero_as_its_first_multiple() -> None:
    tiny = dimension("qloguniform", [1e-12, 5.0, 1.0])
    assert multiples(1e-12, 5.0, 1.0)[0] == 0
    assert tiny.value(tiny.from_unit(tiny.unit(0))) == 0.0
    assert tiny.value(tiny.high) == 5.0


def test_dimensions_have_the_names_used_in_the_table_of_trials() -> None:
    spaces, _ = find_spaces({"config": {"lr": {"uniform": [0, 1]}, "model": {"lr": {"uniform": [0, 1]}}}})
    assert [each.name for each in dimensions_of(spaces)] == ["config.lr", "model.lr"]
