"""A population's history for drawings."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from rlrun.report.families import Family, TrainingSegment, families
from rlrun.report.reading import read_run

MakeRun = Callable[..., Path]
RETURN = "episode_return_mean"


def ancestors(family: Family) -> list[TrainingSegment]:
    """Returns the ancestors of the best member, oldest first."""
    found = [stretch for stretch in family.stretches if stretch.is_ancestor]
    return sorted(found, key=lambda stretch: (stretch.start, stretch.generation))


def test_the_ancestors_of_the_best_member_show_where_its_weights_came_from(make_population: MakeRun) -> None:
    (family,) = families(read_run(make_population()), RETURN, "max")
    assert family.members[family.best or 0] == "001-population=0-member=1"
    assert family.copies == 2
    course = [(s.member, s.generation, s.start, s.stop, s.params["lr"]) for s in ancestors(family)]
    # Member 1 copied member 2's weights at 400 env steps; member 2 had copied member 0's at 200.
    assert course == [(0, 0, 0, 200, 0.1), (2, 1, 200, 400, 0.12), (1, 2, 400, 600, 0.5)]


def test_a_stretch_of_training_is_scored_at_the_next_decision_or_at_the_end_of_the_run(
    make_population: MakeRun,
) -> None:
    (family,) = families(read_run(make_population()), RETURN, "max")
    mine = [stretch for stretch in family.stretches if stretch.member == 2]
    assert [(stretch.how, stretch.parent, stretch.score) for stretch in mine] == [
        ("initial", None, 6),
        ("perturbed", 0, 60),
        ("kept", None, 75),
    ]


def test_stretches_of_training_only_from_data_are_measured_in_sgd_steps(make_population: MakeRun) -> None:
    path = make_population()
    lineage = path / "lineage.jsonl"
    lines = [json.loads(line) for line in lineage.read_text().splitlines()]
    for member in (member for line in lines for member in line["members"]):
        member |= {"env_steps": 0, "sgd_steps": member["env_steps"] * 2}
    lineage.write_text("".join(json.dumps(line) + "\n" for line in lines))
    for results in path.glob("*/result.json"):
        rows = [json.loads(row) for row in results.read_text().splitlines()]
        changed = [{**row, "env_steps": 0, "sgd_steps": row["env_steps"] * 2} for row in rows]
        results.write_text("".join(json.dumps(row) + "\n" for row in changed))
    (family,) = families(read_run(path), RETURN, "max")
    course = [(stretch.start, stretch.stop) for stretch in family.stretches if stretch.member == 0]
    assert course == [(0, 400), (400, 800), (800, 1200)]


def test_in_mode_min_the_best_member_is_the_one_with_the_lowest_score(make_population: MakeRun) -> None:
    (family,) = families(read_run(make_population()), RETURN, "min")
    assert family.best == 0
    assert [stretch.member for stretch in ancestors(family)] == [0, 0, 0]


def test_members_of_asynchronous_populations_have_their_own_generations(make_population: MakeRun) -> None:
    path = make_population()
    a, b, c = sorted(trial.name for trial in path.glob("*-member=*"))

    def line(generation: int, trial: str, steps: int, parent: str | None = None, of: int | None = None) -> str:
        how = "initial" if generation == 0 else "kept" if parent is None else "perturbed"
        member = {"trial": trial, "score": 1.0, "env_steps": steps, "how": how, "parent": parent}
        members = [{**member, "parent_generation": of, "params": {"lr": 0.1}}]
        return json.dumps({"population": 0, "generation": generation, "members": members}) + "\n"

    text = "".join(line(0, trial, 0) for trial in (a, b, c))
    text += line(1, a, 200) + line(2, a, 400) + line(1, b, 210, parent=a, of=2) + line(1, c, 220)
    (path / "lineage.jsonl").write_text(text)
    (family,) = families(read_run(path), RETURN, "max")
    assert [(stretch.member, stretch.generation) for stretch in ancestors(family)] == [(0, 0), (0, 1), (1, 1)]


def test_a_torn_lineage_file_and_a_member_without_a_trial_are_tolerated(make_population: MakeRun) -> None:
    path = make_population()
    with (path / "lineage.jsonl").open("a") as file:
        file.write('{"population": 0, "gener')
    (path / "001-population=0-member=1" / "trial.json").unlink()
    (path / "001-population=0-member=1" / "result.json").unlink()
    (family,) = families(read_run(path), RETURN, "max")
    assert family.members[family.best or 0] == "002-population=0-member=2"


def test_a_run_without_populations_has_no_families(make_sweep: MakeRun) -> None:
    assert families(read_run(make_sweep({0.1: [[1]]})), RETURN, "max") == []
