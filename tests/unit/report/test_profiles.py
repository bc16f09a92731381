"""Methods over several envs: what counts as a method, how scores are scaled, what a profile is."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from rlrun.report.configurations import groups_of
from rlrun.report.profiles import Profiles, profiles
from rlrun.report.reading import read_runs
from tests.unit.report.conftest import write_table, write_trial

RETURN = "episode_return_mean"
Finals = Mapping[tuple[str, float], Sequence[float]]


@pytest.fixture
def make_run(tmp_path: Path) -> Callable[..., Path]:
    """Returns a function that writes a run over envs: (env, lr) -> the final return of each seed."""

    def make(finals: Finals, name: str = "envs", spec: Mapping[str, Any] | None = None) -> Path:
        run = tmp_path / "runs" / name
        for number, ((env, lr), returns) in enumerate(finals.items()):
            for seed, value in enumerate(returns):
                trial = f"{number}{seed:02d}-seed={seed}"
                write_trial(run, trial, [value], {"env": env, "lr": lr}, configuration=number, seed=seed)
        return write_table(run, spec)

    return make


def of(*paths: Path, mode: Any = "max") -> Profiles | None:
    runs = read_runs(paths, [RETURN])
    groups = [group for run in runs for group in groups_of(run, several_runs=len(runs) > 1)]
    return profiles(runs, groups, RETURN, mode)


def test_scores_are_scaled_per_env_and_methods_are_identified_by_settings_other_than_env(
    make_run: Callable[..., Path],
) -> None:
    found = of(make_run({("A", 0.1): [0, 100], ("B", 0.1): [-4, -2], ("A", 0.2): [50, 50], ("B", 0.2): [-3, -3]}))
    assert found is not None
    assert found.tasks == {"A": (0, 100), "B": (-4, -2)}
    assert [method.label for method in found.methods] == ["ppo, lr=0.1", "ppo, lr=0.2"]
    first, second = found.methods
    assert (first.iqm.value, first.mean.value, first.optimality_gap.value) == (0.5, 0.5, 0.5)
    shares = [share.value for share in first.profile]
    assert (shares[0], shares[1], shares[-1]) == (1, 0.5, 0.5)
    assert [share.value for share in second.profile][12:14] == [1, 0]
    assert (first.probability, second.probability and second.probability.value) == (None, 0.5)


def test_in_mode_min_the_lowest_score_is_scaled_to_1(make_run: Callable[..., Path]) -> None:
    found = of(make_run({("A", 0.1): [1], ("B", 0.1): [2], ("A", 0.2): [3], ("B", 0.2): [4]}), mode="min")
    assert found is not None
    assert [(method.label, method.iqm.value) for method in found.methods] == [("ppo, lr=0.1", 1), ("ppo, lr=0.2", 0)]


def test_methods_without_a_run_in_every_env_are_left_out_of_profiles(make_run: Callable[..., Path]) -> None:
    whole = {(env, lr): [lr] for env in "AB" for lr in (0.1, 0.2)}
    found = of(make_run({**whole, ("A", 0.3): [0.3]}))
    assert found is not None
    assert ([method.label for method in found.methods], found.left_out) == (
        ["ppo, lr=0.2", "ppo, lr=0.1"],
        ["ppo, lr=0.3"],
    )
    assert of(make_run({("A", 0.1): [1], ("A", 0.2): [1]}, name="one-env")) is None


def test_an_env_in_which_all_methods_have_equal_scores_is_left_out_of_profiles(make_run: Callable[..., Path]) -> None:
    values = {
        ("A", 0.1): [1],
        ("A", 0.2): [2],
        ("B", 0.1): [3],
        ("B", 0.2): [4],
        ("C", 0.1): [-200],
        ("C", 0.2): [-200],
    }
    found = of(make_run(values))
    assert found is not None
    assert (list(found.tasks), found.equal) == (["A", "B"], ["C"])


def test_runs_of_an_algorithm_form_one_method_unless_several_are_in_the_same_env(make_run: Callable[..., Path]) -> None:
    runs = [
        make_run({(env, 0.1): [value]}, name=f"{algorithm}-{env}", spec={"algorithm": algorithm, "env": env})
        for algorithm, value in (("ppo", 1), ("dqn", 2))
        for env in "AB"
    ]
    found = of(*runs)
    assert found is not None
    assert [method.label for method in found.methods] == ["dqn, lr=0.1", "ppo, lr=0.1"]
    twice = [make_run({(env, 0.1): [value] for env in "AB"}, name=name) for name, value in (("new", 2), ("old", 1))]
    found = of(*twice)
    assert found is not None
    assert [method.label for method in found.methods] == ["new, lr=0.1", "old, lr=0.1"]
