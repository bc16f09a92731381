"""Properties of every model-based searcher."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rlrun.experiments.search.searchers.dimension import dimensions_of
from rlrun.experiments.search.searchers.journal import JournaledSearcher
from rlrun.experiments.search.searchers.searcher import Configuration, History
from rlrun.experiments.search.suggestions import SEARCHERS
from rlrun.experiments.spec.expansion import expand
from rlrun.experiments.spec.search_space import SearchSpace, find_spaces

ALL_KINDS = {
    "grid": {"grid_search": [1, 2, 3]},
    "choice": {"choice": ["a", [1, 2], {"b": [None]}, None, True, 1]},
    "twice": {"choice": [7, 7, 8]},
    "only": {"choice": [[64, 64]]},
    "uniform": {"uniform": [0.9, 0.99]},
    "quniform": {"quniform": [0.1, 0.5, 0.1]},
    "whole_quniform": {"quniform": [-4, 4, 2]},
    "loguniform": {"loguniform": [1e-5, 1e-1]},
    "qloguniform": {"qloguniform": [0.3, 8, 0.1]},
    "whole_qloguniform": {"qloguniform": [16, 1024, 16]},
    "randint": {"randint": [-1, 3]},
    "qrandint": {"qrandint": [16, 64, 16]},
    "lograndint": {"lograndint": [1, 1000]},
    "large": {"lograndint": [1, 2**53]},
    "normal": {"normal": [3.0, 2.0]},
}
BOWL = {
    "lr": {"loguniform": [1e-5, 1e-1]},
    "gamma": {"uniform": [0.9, 1.0]},
    "clip": {"quniform": [0.05, 0.5, 0.05]},
    "batch": {"lograndint": [16, 2048]},
    "act": {"choice": ["tanh", "relu", "elu"]},
}
Searched = list[tuple[Configuration, float | None]]


@pytest.fixture(params=SEARCHERS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def spaces_of(data: dict[str, Any]) -> dict[tuple[str | int, ...], SearchSpace]:
    return find_spaces(data)[0]


def search(
    path: Path, kind: str, data: dict[str, Any], score: Callable[..., float | None], trials: int, mode: str = "max"
) -> Searched:
    head = {"mode": mode, "seed": int(path.name), "startup_trials": 8}
    searcher = JournaledSearcher(
        SEARCHERS[kind](), path / "search.jsonl", head, dimensions_of(spaces_of(data)), lambda values: None
    )
    found: Searched = []
    for number in range(trials):
        values = searcher.suggest(number)
        found.append((values, score(**{str(location[0]): value for location, value in values.items()})))
        searcher.complete(number, found[-1][1])
    return found


def folder(tmp_path: Path, seed: int) -> Path:
    (tmp_path / str(seed)).mkdir()
    return tmp_path / str(seed)


def bowl(lr: float, gamma: float, clip: float, batch: int, act: str) -> float:
    """A score that is best, 0, at lr 1e-3, gamma 0.97, clip 0.2, batch 256 and relu."""
    numbers = math.log10(lr) + 3, 50 * (gamma - 0.97), 5 * (clip - 0.2), math.log2(batch) - 8
    return -sum(number**2 for number in numbers) - 2 * (act != "relu")


def possible(space: SearchSpace, value: Any) -> bool:
    """Whether a space can draw a value, checked without the code under test."""
    name, arguments = space.kind.name, space.arguments
    if not space.kind.parameters:
        return any(value is option for option in arguments)
    if name == "normal":
        return isinstance(value, float) and math.isfinite(value)
    low, high = arguments[:2]
    if len(arguments) == 3:
        multiple = value / arguments[2]
        clean = value == float(f"{round(multiple) * arguments[2]:.12g}")
        return low <= value <= high and clean and isinstance(value, type(arguments[2]))
    if space.kind.whole:
        return isinstance(value, int) and low <= value < high
    return isinstance(value, float) and low <= value <= high


def test_every_suggestion_lies_within_the_search_spaces(kind: str, tmp_path: Path) -> None:
    def score(uniform: float, randint: int, **others: Any) -> float | None:
        return None if randint == 0 else uniform

    spaces = spaces_of(ALL_KINDS)
    found = search(folder(tmp_path, 0), kind, ALL_KINDS, score, 20)
    for values, _ in found:
        assert {location[0]: possible(spaces[location], value) for location, value in values.items()} == dict.fromkeys(
            ALL_KINDS, True
        )


def test_suggestions_score_better_than_random_draws(kind: str, tmp_path: Path) -> None:
    best, best_random = [], []
    for seed in range(3):
        scores = [score for _, score in search(folder(tmp_path, seed), kind, BOWL, bowl, 40) if score is not None]
        drawn = expand(spaces_of(BOWL), 40, seed)
        random = [bowl(**{str(location[0]): value for location, value in values.items()}) for values in drawn]
        assert sum(scores[20:]) / 20 > sum(random) / 40
        best.append(max(scores))
        best_random.append(max(random))
    assert sum(best) > sum(best_random)


def test_in_mode_min_searchers_minimize_the_score(kind: str, tmp_path: Path) -> None:
    def loss(**values: Any) -> float:
        return -bowl(**values)

    most = search(folder(tmp_path, 0), kind, BOWL, bowl, 20)
    least = search(folder(tmp_path / "0", 0), kind, BOWL, loss, 20, mode="min")
    assert [values for values, _ in least] == [values for values, _ in most]


def history_of(trials: int, data: dict[str, Any] = BOWL) -> History:
    history = History(dimensions_of(spaces_of(data)), "max")
    for number, values in enumerate(expand(spaces_of(data), trials, seed=3)):
        history.configurations[number] = values
        history.scores[number] = bowl(**{str(location[0]): value for location, value in values.items()})
        history.began[number] = history.ended[number] = 0.0
    return history


def test_the_same_history_and_seed_give_the_same_configuration(kind: str) -> None:
    first, again = SEARCHERS[kind](), SEARCHERS[kind]()
    proposals = [first.propose(history_of(20), seed) for seed in range(6)]
    assert [again.propose(history_of(20), seed) for seed in reversed(range(6))] == proposals[::-1]
    assert len({repr(proposal) for proposal in proposals}) == 6


def test_proposing_does_not_modify_the_history(kind: str) -> None:
    history = history_of(20)
    SEARCHERS[kind]().propose(history, 0)
    assert history == history_of(20)


def test_proposals_do_not_depend_on_the_order_in_which_results_arrived(kind: str) -> None:
    history, shuffled = history_of(20), history_of(20)
    shuffled.scores = dict(reversed(history.scores.items()))
    shuffled.configurations = dict(reversed(history.configurations.items()))
    searcher = SEARCHERS[kind]()
    assert [searcher.propose(shuffled, seed) for seed in range(4)] == [
        searcher.propose(history, seed) for seed in range(4)
    ]


def test_running_and_failed_configurations_do_not_prevent_valid_proposals(kind: str) -> None:
    history = history_of(20)
    for number in range(0, 20, 4):
        history.scores[number] = None
        del history.scores[number + 1]
    proposed = SEARCHERS[kind]().propose(history, 5)
    assert all(possible(dimension.space, proposed[dimension.location]) for dimension in history.dimensions)


@pytest.mark.parametrize("kind", ["bohb"])
def test_fewer_configurations_are_suggested_in_regions_that_fail(kind: str, tmp_path: Path) -> None:
    def score(lr: float, **others: Any) -> float | None:
        return None if lr > 1e-3 else 0.0

    fails = 0
    for seed in range(3):
        found = search(folder(tmp_path, seed), kind, {"lr": BOWL["lr"]}, score, 40)
        fails += sum(score is None for _, score in found[10:])
    assert fails < 30  # of 90 trials; about 45 would fail if drawn at random


def test_a_search_whose_configurations_all_fail_keeps_suggesting_different_ones(kind: str, tmp_path: Path) -> None:
    found = search(folder(tmp_path, 0), kind, BOWL, lambda **values: None, 20)
    assert len({repr(values) for values, _ in found}) == 20


def test_a_search_over_a_single_option_keeps_suggesting_it(kind: str, tmp_path: Path) -> None:
    found = search(folder(tmp_path, 0), kind, {"lr": {"choice": [0.1]}}, lambda lr: lr, 12)
    assert [values for values, _ in found] == [{("lr",): 0.1}] * 12
