"""Which configuration is better, and how sure that is."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from rlrun.cli.compare import comparison_text
from rlrun.cli.main import cli
from rlrun.engine.messages.errors import UsageError
from rlrun.engine.settings.metric import Mode
from rlrun.experiments.trial.trial_directory import TrialDirectory, TrialRecord
from rlrun.report.comparison import Comparison, Side, _worse_than_rest, compare, mean_height
from rlrun.report.configurations import groups_of
from rlrun.report.reading import read_run

MakeRun = Callable[..., Path]
RETURN = "episode_return_mean"


def compared(path: Path, mode: Mode = "max") -> Comparison:
    return compare(groups_of(read_run(path)), RETURN, "env_steps", mode)


def straight(ends: Sequence[float], rows: int = 4) -> list[list[float]]:
    """Returns a trial for each end value, whose curve rises to it in a straight line."""
    return [[end * n / rows for n in range(1, rows + 1)] for end in ends]


def test_enough_seeds_settle_a_comparison_of_groups_that_do_not_overlap(make_sweep: MakeRun, wording) -> None:
    found = compared(make_sweep({0.1: straight([1, 2, 3, 4, 5]), 0.2: straight([6, 7, 8, 9, 10])}))
    assert [side.label for side in found.sides] == ["lr=0.2", "lr=0.1"]
    assert found.sides[0].end == [6, 7, 8, 9, 10]
    assert found.sides[0].at_end["iqm"].value == 8
    assert found.sides[0].at_end["median"].value == 8
    (pair,) = found.pairs
    assert pair.settled
    assert pair.p_value == pytest.approx(2 / 252)
    assert found.verdict == wording("0.2", "0.1", "100%")
    assert found.notes == ()


def test_three_seeds_cannot_settle_a_comparison_and_the_verdict_says_how_many_seeds_could(
    make_sweep: MakeRun, wording
) -> None:
    found = compared(make_sweep({0.1: straight([1, 2, 3]), 0.2: straight([6, 7, 8])}))
    assert not found.pairs[0].settled
    assert found.verdict == wording("lr=0.2", "lr=0.1", "4 seeds")
    assert "intervals from 3 seeds are too narrow; p values are corrected for the number of seeds" in found.notes


def test_a_difference_that_may_be_due_to_chance_is_not_presented_as_a_real_one(make_sweep: MakeRun, wording) -> None:
    found = compared(make_sweep({0.1: straight([1, 5, 3, 7, 9]), 0.2: straight([2, 6, 4, 8, 10])}))
    assert found.verdict == wording("0.2", "0.1", "60%")


def test_the_verdict_on_equal_groups_says_that_they_cannot_be_told_apart(make_sweep: MakeRun, wording) -> None:
    found = compared(make_sweep({0.1: straight([1, 2, 3, 4]), 0.2: straight([1, 2, 3, 4])}))
    assert found.verdict == wording("0.1", "0.2")


def test_for_saturated_groups_a_note_says_how_soon_each_reaches_the_ceiling(make_sweep: MakeRun, wording) -> None:
    slow, fast, lower = [[100, 300, 500, 500]] * 3, [[300, 500, 500, 500]] * 3, [[100, 200, 300, 400]] * 3
    found = compared(make_sweep({0.1: slow, 0.2: fast, 0.3: lower}))
    (note,) = [note for note in found.notes if "saturated" in note]
    assert note == wording("2 groups", "500", "lr=0.2 200", "lr=0.1 300")
    assert not [note for note in compared(make_sweep({0.1: slow, 0.2: lower}, "one")).notes if "saturated" in note]
    assert not [
        note for note in compared(make_sweep({0.1: [[5, 5]], 0.2: [[5, 5]]}, "flat")).notes if "saturated" in note
    ]


def test_groups_of_equal_values_are_tied_whatever_their_labels(make_sweep: MakeRun, wording) -> None:
    one = compared(make_sweep({0.1: straight([500]), 0.2: straight([500])}, name="one"))
    assert (one.verdict, one.pairs[0].settled) == (wording("tied", "lr=0.1", "lr=0.2"), False)
    more = compared(make_sweep({lr: straight([500, 490, 480]) for lr in (0.3, 0.1, 0.2)}, name="more"))
    assert more.verdict == wording("3", "tied")


def test_the_verdict_does_not_list_a_group_tied_with_the_leader_among_those_it_beats(
    make_sweep: MakeRun, wording
) -> None:
    ends = {0.1: range(5), 0.2: range(10, 15), 0.3: range(10, 15)}
    found = compared(make_sweep({lr: straight([float(end) for end in values]) for lr, values in ends.items()}))
    assert found.verdict == wording("lr=0.2", "lr=0.1", "lr=0.3")


def test_in_mode_min_the_group_with_the_lower_values_is_ahead(make_sweep: MakeRun) -> None:
    found = compared(make_sweep({0.1: straight([1, 2, 3, 4, 5]), 0.2: straight([6, 7, 8, 9, 10])}), "min")
    assert found.sides[0].label == "lr=0.1"
    assert (found.pairs[0].ahead, found.pairs[0].probability.value) == ("lr=0.1", 1.0)


def test_a_leader_is_compared_with_every_other_group(make_sweep: MakeRun, wording) -> None:
    ends = {0.1: range(6), 0.2: range(10, 16), 0.3: range(11, 17), 0.4: range(20, 26), 0.5: range(30, 36)}
    found = compared(make_sweep({lr: straight([float(end) for end in values]) for lr, values in ends.items()}))
    assert [pair.ahead for pair in found.pairs] == ["lr=0.5"] * 4
    assert found.verdict == wording("0.5")


def test_p_values_of_a_leader_are_corrected_for_all_pairs_since_the_same_data_selected_it(
    make_sweep: MakeRun, wording
) -> None:
    ends = {lr: [10.0 * lr + n for n in range(5)] for lr in range(1, 7)}
    found = compared(make_sweep({lr: straight(values) for lr, values in ends.items()}))
    assert found.pairs[0].p_value == pytest.approx(15 * 2 / 252)
    assert found.verdict == wording()


def test_the_verdict_names_the_groups_that_the_leader_is_not_clearly_ahead_of(make_sweep: MakeRun, wording) -> None:
    ends = {0.1: range(6), 0.2: range(10, 16), 0.3: range(11, 17)}
    found = compared(make_sweep({lr: straight([float(end) for end in values]) for lr, values in ends.items()}))
    assert len(found.pairs) == 3
    assert found.verdict == wording("0.3", "0.1", "0.2")


def test_a_comparison_ends_where_the_shortest_run_ends_and_a_note_says_so(make_sweep: MakeRun, wording) -> None:
    found = compared(make_sweep({0.1: [[1, 2, 3, 4]] * 2, 0.2: [[5, 6]] * 2}))
    assert (found.start, found.stop) == (100, 200)
    assert found.sides[1].end == [2, 2]
    assert wording("0.2", "200") in found.notes


def test_a_seed_that_ended_early_keeps_its_last_value(make_sweep: MakeRun, wording) -> None:
    found = compared(make_sweep({0.1: [[1, 9], [1, 2, 3, 4]], 0.2: [[1, 2, 3, 4]] * 2}))
    assert found.stop == 400
    assert found.sides[0].end == [9, 4]
    assert wording("0.1", "400") in found.notes


def test_unfinished_trials_and_trials_without_values_are_noted(make_sweep: MakeRun, wording) -> None:
    path = make_sweep({0.1: [[1, 2], [2, 3]], 0.2: [[1, 2], []], 0.3: [[], []]})
    TrialDirectory(path / "000-lr=0.1-seed=0").write_record(TrialRecord("x", "ERROR", 0, {"lr": 0.1}, error="boom"))
    found = compared(path)
    assert {side.label: side.samples for side in found.sides} == {"lr=0.1": 2, "lr=0.2": 1}
    assert wording("0.3") in found.notes
    assert wording("0.2") in found.notes
    assert wording("0.1") in found.notes


def test_a_note_says_that_a_population_has_an_advantage_over_single_trials(
    make_sweep: MakeRun, make_population: MakeRun
) -> None:
    population = groups_of(read_run(make_population()))
    single = groups_of(read_run(make_sweep({0.1: [[1, 2, 3]]})))
    note = "population, best of 3 members: the best of several members is used, which favors it over single trials"
    assert note in compare([*population, *single], RETURN, "env_steps").notes
    assert note not in compare([population[0], replace(population[0], label="b")], RETURN, "env_steps").notes


def test_a_single_group_cannot_be_compared_and_groups_without_results_are_named(make_sweep: MakeRun, wording) -> None:
    with pytest.raises(UsageError) as caught:
        compared(make_sweep({0.1: [[1, 2]], 0.2: [[]]}))
    assert str(caught.value) == wording(RETURN, "0.2")


def test_the_verdict_draws_no_conclusion_from_one_seed_per_group(make_sweep: MakeRun, wording) -> None:
    found = compared(make_sweep({0.1: straight([1]), 0.2: straight([6])}))
    assert found.verdict == wording("lr=0.2", "lr=0.1")
    many = compared(make_sweep({lr: straight([lr]) for lr in (1.0, 2.0, 3.0)}, name="many"))
    assert many.verdict == wording()
    pairs = comparison_text(found).split("\n\n")[2].splitlines()
    assert pairs[1].split()[:4] == ["lr=0.2", "lr=0.1", "100%", "-"]


def test_the_only_one_of_six_configurations_that_does_not_learn_in_three_seeds_is_named(
    make_sweep: MakeRun, wording
) -> None:
    ends = {lr: [495.0 + 0.1 * lr, 470 + lr, 480 - lr] for lr in (1.0, 2.0, 3.0, 4.0, 5.0)}
    ends[6.0] = [9.0, 10.0, 11.0]
    found = compared(make_sweep({lr: straight(values) for lr, values in ends.items()}))
    assert (found.worst, [pair.settled for pair in found.pairs]) == (("lr=6",), [False] * 5)
    assert found.verdict == wording()


def test_among_equal_configurations_one_is_rarely_called_worse_than_the_rest() -> None:
    draws = np.random.default_rng(0)
    called = 0
    for _ in range(300):
        sides = [Side(str(n), 3, list(draws.normal(size=3)), [], {}, {}) for n in range(6)]
        called += bool(_worse_than_rest(sides, "max"))
    assert called / 300 <= 0.05


def test_runs_with_only_one_evaluation_each_are_compared_by_that_evaluation(make_sweep: MakeRun) -> None:
    found = compared(make_sweep({0.1: [[None, 2]] * 2, 0.2: [[None, 3]] * 2}))
    assert [(side.label, side.end, side.area) for side in found.sides] == [
        ("lr=0.2", [3, 3], [3, 3]),
        ("lr=0.1", [2, 2], [2, 2]),
    ]
    assert f"{RETURN} has a single common value, so the area under the curve equals the final value" in found.notes


def evaluate(run: Path, trial: str, rows: Sequence[int]) -> None:
    """Adds evaluations to some rows of a trial; their returns are the negated training returns."""
    file = run / trial / "result.json"
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    for row in rows:
        lines[row]["evaluation/episode_return_mean"] = -lines[row][RETURN]
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))


def test_trials_that_ended_before_their_first_evaluation_are_compared_by_training_returns(make_sweep: MakeRun) -> None:
    path = make_sweep({0.1: [[1, 2, 3, 4]], 0.2: [[1, 2]]}, spec={"evaluation": {"every": 3}})
    evaluate(path, "000-lr=0.1-seed=0", [2, 3])
    done = CliRunner().invoke(cli, ["compare", str(path), "--json"])
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert (found["metric"], found["stop"]) == (RETURN, 200)
    assert {side["label"]: side["end"] for side in found["sides"]} == {"lr=0.1": [2], "lr=0.2": [2]}
    note = f"compared by {RETURN}, which all trials have, because 1 trial ended without a value of evaluation/{RETURN}"
    assert note in found["notes"]
    evaluate(path, "001-lr=0.2-seed=0", [1])
    named = CliRunner().invoke(cli, ["compare", str(path), "--json", "--metric", f"evaluation/{RETURN}"])
    for found in (named, CliRunner().invoke(cli, ["compare", str(path), "--json"])):
        assert found.exit_code == 2, "one evaluation begins at 300, the other one ends at 200"


def test_curves_that_do_not_overlap_in_env_steps_cannot_be_compared(make_sweep: MakeRun, wording) -> None:
    with wording.raised(UsageError, "env_steps", "300", "200"):
        compared(make_sweep({0.1: [[1, 2]], 0.2: [[None, None, 3, 4]]}))


def test_the_mean_height_of_a_curve_is_its_area_between_two_points_divided_by_their_distance() -> None:
    course = (np.array([0.0, 10.0, 20.0]), np.array([0.0, 10.0, 0.0]))
    assert mean_height(course, 0, 20) == 5
    assert mean_height(course, 5, 15) == 7.5
    assert mean_height(course, 10, 40) == pytest.approx(50 / 30)
