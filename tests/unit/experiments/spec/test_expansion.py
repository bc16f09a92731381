from rlrun.experiments.spec.expansion import (
    count,
    draw,
    expand,
    fill,
    filled,
    has_value_at,
    member_seed,
    planned_members,
    planned_trials,
    value_at,
)
from rlrun.experiments.spec.search_space import find_spaces


def test_filling_replaces_search_spaces_with_values_in_a_copy_of_the_data() -> None:
    data = {"a": {"uniform": [0, 1]}, "b": [1, {"choice": [2, 3]}]}
    assert fill(data, {("a",): 0.5, ("b", 1): 3}) == {"a": 0.5, "b": [1, 3]}
    assert data == {"a": {"uniform": [0, 1]}, "b": [1, {"choice": [2, 3]}]}


def test_every_sample_covers_the_whole_grid_with_fresh_draws() -> None:
    spaces, _ = find_spaces({"g": {"grid_search": [1, 2]}, "h": {"grid_search": ["a", "b"]}, "u": {"uniform": [0, 1]}})
    found = expand(spaces, num_samples=2, seed=3)
    assert count(spaces, 2) == len(found) == 8
    assert [(drawn[("g",)], drawn[("h",)]) for drawn in found] == [(1, "a"), (1, "b"), (2, "a"), (2, "b")] * 2
    assert len({drawn[("u",)] for drawn in found}) == 8


def test_a_spec_without_search_spaces_has_one_configuration() -> None:
    assert expand({}, num_samples=1, seed=0) == [{}]


def test_draws_with_the_same_seed_are_equal_and_draws_with_different_seeds_differ() -> None:
    spaces, _ = find_spaces({"u": {"uniform": [0, 1]}})
    assert expand(spaces, 3, seed=1) == expand(spaces, 3, seed=1)
    assert expand(spaces, 3, seed=1) != expand(spaces, 3, seed=2)
    random_bits = 1284976775865568  # the same on every machine; a change would alter everyone's trials
    assert expand(spaces, 1, seed=0)[0][("u",)] == random_bits / 2**53


def test_adding_samples_or_spaces_does_not_change_earlier_draws() -> None:
    few, _ = find_spaces({"u": {"uniform": [0, 1]}})
    more, _ = find_spaces({"t": {"uniform": [0, 1]}, "u": {"uniform": [0, 1]}})
    before = [drawn[("u",)] for drawn in expand(few, 2, seed=0)]
    assert [drawn[("u",)] for drawn in expand(more, 5, seed=0)][:2] == before


def test_equal_search_spaces_of_two_settings_are_drawn_independently() -> None:
    spaces, _ = find_spaces({"t": {"uniform": [0, 1]}, "u": {"uniform": [0, 1]}})
    (drawn,) = expand(spaces, 1, seed=0)
    assert drawn[("t",)] != drawn[("u",)]


def test_filling_adds_keys_that_the_data_lacks() -> None:
    data = {"config": {"model": {"conv": "nature"}, "lr": [[0, {"uniform": [0, 1]}]]}}
    values = {("config", "model", "activation"): "relu", ("config", "a", "b"): 1, ("config", "lr", 0, 1): 0.5}
    assert filled(data, values) == {
        "config": {"model": {"conv": "nature", "activation": "relu"}, "lr": [[0, 0.5]], "a": {"b": 1}}
    }
    assert data == {"config": {"model": {"conv": "nature"}, "lr": [[0, {"uniform": [0, 1]}]]}}


def test_nested_values_can_be_looked_up_by_their_location_in_the_data() -> None:
    data = {"config": {"lr": None, "model": {"hiddens": [64]}}}
    assert has_value_at(data, ("config", "lr"))  # null is a value
    assert not has_value_at(data, ("config", "gamma"))
    assert not has_value_at(data, ("config", "lr", "x"))
    assert value_at(data, ("config", "model", "hiddens", 0)) == 64


def test_a_sweep_runs_each_configuration_with_every_seed() -> None:
    planned = planned_trials([{("a",): 1}, {("a",): 2}], [5, 6])
    assert [(trial.index, trial.configuration, trial.seed, trial.values[("a",)]) for trial in planned] == [
        (0, 0, 5, 1),
        (1, 0, 6, 1),
        (2, 1, 5, 2),
        (3, 1, 6, 2),
    ]


def test_each_member_draws_its_own_start_for_settings_missing_from_the_config() -> None:
    mutated, _ = find_spaces({"lr": {"uniform": [0, 1]}, "gamma": {"uniform": [0, 1]}}, ("config",))
    planned = list(planned_members({"config": {"gamma": 0.9}}, [{}, {}], mutated, [5, 6]))
    place = ("config", "lr")
    assert [(trial.index, trial.configuration, trial.seed) for trial in planned] == [
        (0, 0, 5),
        (1, 1, 5),
        (2, 0, 6),
        (3, 1, 6),
    ]
    assert [trial.values for trial in planned] == [
        {place: draw(mutated[place], place, trial.seed, trial.configuration)} for trial in planned
    ]


def test_every_member_of_every_population_has_a_different_seed() -> None:
    seeds = [member_seed(population, member) for population in range(50) for member in range(50)]
    assert len(set(seeds)) == len(seeds)
    assert all(0 <= seed < 2**31 for seed in seeds)
    assert member_seed(0, 0) == 178665874  # a change would alter everyone's populations
