import json
import math
import resource
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rlrun.engine.messages.errors import OutOfResources, Problem, SpecError, UsageError
from rlrun.experiments.search.searchers.dimension import dimensions_of
from rlrun.experiments.search.searchers.journal import ATTEMPTS, JournaledSearcher
from rlrun.experiments.search.searchers.searcher import Configuration
from rlrun.experiments.search.suggestions import SEARCHERS
from rlrun.experiments.spec.search_space import find_spaces

SPACES = {
    "lr": {"loguniform": [1e-5, 1e-1]},
    "net": {"choice": [[64, 64], {"layers": [32]}, None]},
    "only": {"choice": [True]},
}
HEAD = {"searcher": "any", "metric": "r", "mode": "max", "seed": 4, "startup_trials": 3, "spaces": SPACES}


def open_search(
    folder: Path, kind: str = "bohb", check: Callable[[Configuration], object] = lambda values: None, **head: Any
) -> JournaledSearcher:
    dimensions = dimensions_of(find_spaces(SPACES)[0])
    return JournaledSearcher(SEARCHERS[kind](), folder / "search.jsonl", {**HEAD, **head}, dimensions, check)


def lines(folder: Path) -> list[Any]:
    return [json.loads(line) for line in (folder / "search.jsonl").read_text().splitlines()]


def run_search(searcher: JournaledSearcher, configurations: int) -> dict[int, Configuration]:
    """Runs two trials at once and reports results on the way; one in five fails. Repeated reports change nothing."""
    for number in range(configurations + 1):
        if number < configurations:
            searcher.suggest(number)
        if number > 0:
            done = number - 1
            score = -abs(math.log10(searcher.suggested[done][("lr",)]) + 3)
            searcher.observe(done, 10, score - 0.5)
            searcher.complete(done, None if done % 5 == 4 else score)
    return searcher.suggested


def test_the_journal_records_the_search_with_one_line_per_event(tmp_path: Path) -> None:
    searcher = open_search(tmp_path)
    values = searcher.suggest(0)
    searcher.observe(0, 10, 1.5)
    searcher.complete(0, 2.5)
    searcher.suggest(1)
    searcher.complete(1, None)
    head, *events = lines(tmp_path)
    assert head == json.loads(json.dumps(HEAD))
    by_name = {"lr": values[("lr",)], "net": values[("net",)], "only": True}
    assert events[0]["at"] < events[2]["at"]
    assert [{name: item for name, item in event.items() if name != "at"} for event in events] == [
        {"suggest": 0, "attempt": 0, "values": by_name},
        {"observe": 0, "budget": 10, "score": 1.5},
        {"complete": 0, "score": 2.5},
        {"suggest": 1, "attempt": 0, "values": events[3]["values"]},
        {"complete": 1, "score": None},
    ]


@pytest.mark.parametrize(("kind", "configurations"), [("bohb", 12), ("optuna", 7)])
def test_a_search_killed_at_any_point_resumes_as_if_it_had_not_been_interrupted(
    kind: str, configurations: int, tmp_path: Path
) -> None:
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    whole.mkdir()
    cut.mkdir()
    uninterrupted = run_search(open_search(whole, kind), configurations)
    written = (whole / "search.jsonl").read_bytes()
    ends = [place + 1 for place, byte in enumerate(written) if byte == ord("\n")]
    torn = [end + 9 for end in [0, *ends[:-1]]]
    for end in [0, *ends, *torn]:
        (cut / "search.jsonl").write_bytes(written[:end])
        resumed = open_search(cut, kind)
        assert run_search(resumed, configurations) == uninterrupted
        assert resumed.notes() == []
        assert len(lines(cut)) == len(ends)
        assert open_search(cut, kind).history.scores == resumed.history.scores


def test_a_resumed_search_repeats_its_recorded_suggestions(tmp_path: Path) -> None:
    first = open_search(tmp_path).suggest(0)
    resumed = open_search(tmp_path)
    assert resumed.suggested == {0: first}
    assert resumed.suggest(0) == first
    assert len(lines(tmp_path)) == 2


def test_a_resumed_search_has_the_history_of_scores_and_failures(tmp_path: Path) -> None:
    searcher = open_search(tmp_path)
    run_search(searcher, 6)
    resumed = open_search(tmp_path)
    assert resumed.history.scores == searcher.history.scores
    assert resumed.history.scores[4] is None
    assert resumed.history == searcher.history


def test_suggestions_may_be_requested_in_any_order(tmp_path: Path) -> None:
    searcher = open_search(tmp_path)
    values = [searcher.suggest(number) for number in (2, 0)]
    assert open_search(tmp_path).suggested == {2: values[0], 0: values[1]}


def test_options_read_from_the_journal_are_the_same_objects_as_in_the_spec(tmp_path: Path) -> None:
    run_search(open_search(tmp_path), 9)
    options = SPACES["net"]["choice"]
    assert all(
        any(values[("net",)] is option for option in options) for values in open_search(tmp_path).suggested.values()
    )


def test_the_last_of_several_scores_of_a_configuration_is_used(tmp_path: Path) -> None:
    searcher = open_search(tmp_path)
    searcher.suggest(0)
    for score in (None, 1.0, 2.0, 2.0):
        searcher.complete(0, score)
    assert len(lines(tmp_path)) == 5
    assert open_search(tmp_path).history.scores == {0: 2.0}


@pytest.mark.parametrize("score", [math.nan, math.inf, -math.inf])
def test_a_score_that_is_not_a_finite_number_counts_as_a_failure(score: float, tmp_path: Path) -> None:
    searcher = open_search(tmp_path)
    searcher.suggest(0)
    searcher.observe(0, 10, score)
    searcher.complete(0, score)
    assert searcher.history.scores == {0: None}
    assert searcher.history.observations == {}


def test_only_bohb_receives_intermediate_results(tmp_path: Path) -> None:
    for kind in SEARCHERS:
        (tmp_path / kind).mkdir()
        searcher = open_search(tmp_path / kind, kind)
        searcher.suggest(0)
        searcher.observe(0, 10, 1.0)
        assert bool(searcher.history.observations) == (kind == "bohb")


def test_suggestions_are_random_until_enough_configurations_have_scores(tmp_path: Path) -> None:
    by_kind = []
    for kind in SEARCHERS:
        (tmp_path / kind).mkdir()
        searcher = open_search(tmp_path / kind, kind)
        searcher.suggest(0)
        searcher.complete(0, None)
        by_kind.append([searcher.suggest(number) for number in range(6)])
    assert by_kind[0] == by_kind[1]


def test_a_recorded_suggestion_takes_precedence_over_a_recomputed_one(tmp_path: Path, wording) -> None:
    run_search(open_search(tmp_path), 6)
    text = (tmp_path / "search.jsonl").read_text().splitlines()
    place = max(place for place, line in enumerate(text) if '"suggest"' in line)
    event = json.loads(text[place])
    event["values"]["lr"] = 0.0625
    text[place] = json.dumps(event)
    (tmp_path / "search.jsonl").write_text("\n".join(text) + "\n")
    resumed = open_search(tmp_path)
    assert resumed.suggested[5][("lr",)] == 0.0625
    (note,) = resumed.notes()
    assert note == wording()
    assert resumed.notes() == []


def test_the_error_for_a_damaged_journal_line_gives_its_file_and_line_number(tmp_path: Path) -> None:
    run_search(open_search(tmp_path), 3)
    text = (tmp_path / "search.jsonl").read_text().splitlines(keepends=True)
    for wrong, what in (("{x\n", "cannot parse"), ('{"suggest": "x"}\n', "cannot parse")):
        (tmp_path / "search.jsonl").write_text("".join([*text[:2], wrong, *text[3:]]))
        with pytest.raises(UsageError, match=rf"search\.jsonl:3: {what}"):
            open_search(tmp_path)


def test_the_journal_of_a_different_search_is_rejected(tmp_path: Path, wording) -> None:
    open_search(tmp_path)
    with wording.raised(UsageError):
        open_search(tmp_path, metric="x", seed=5)


def refuses(values: Configuration) -> None:
    if values[("lr",)] > 1e-3:
        raise SpecError([Problem("config", f"lr {values[('lr',)]} is too large")])


@pytest.mark.parametrize("kind", SEARCHERS)
def test_a_rejected_suggestion_is_redrawn_and_reported_once(kind: str, tmp_path: Path) -> None:
    searcher = open_search(tmp_path, kind, refuses)
    found = run_search(searcher, 8)
    assert max(values[("lr",)] for values in found.values()) <= 1e-3
    (note,) = searcher.notes()
    assert "replaced an invalid suggestion of the searcher: config: lr 0." in note
    assert any(line["attempt"] > 0 for line in lines(tmp_path) if "suggest" in line)
    resumed = open_search(tmp_path, kind, refuses)
    assert resumed.notes() == []
    assert resumed.suggest(8) == searcher.suggest(8)


def test_if_every_suggestion_is_rejected_the_error_gives_the_last_reason(tmp_path: Path, wording) -> None:
    def check(values: Configuration) -> None:
        raise SpecError([Problem("config.lr", "never")])

    searcher = open_search(tmp_path, check=check)
    with wording.raised(UsageError, ATTEMPTS, "config.lr"):
        searcher.suggest(0)
    assert len(lines(tmp_path)) == 1


def test_a_full_disk_is_reported_and_the_journal_stays_readable(tmp_path: Path) -> None:
    searcher = open_search(tmp_path)
    first = searcher.suggest(0)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, ((tmp_path / "search.jsonl").stat().st_size + 10, hard))
    try:
        with pytest.raises(OutOfResources, match=r"search\.jsonl"):
            searcher.suggest(1)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    resumed = open_search(tmp_path)
    assert resumed.suggested == {0: first}
    resumed.suggest(1)
    assert len(lines(tmp_path)) == 3
