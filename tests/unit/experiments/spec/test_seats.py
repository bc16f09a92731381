"""Entries with seats and a league: what is accepted, what is refused at which line, and what may vary."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pytest

from rlrun.engine.league.league_settings import LeagueSettings, SeatSettings
from rlrun.engine.messages.errors import SpecError
from rlrun.engine.messages.explain import Mistake
from rlrun.engine.training.assemble.policies import Policies
from rlrun.engine.trust import spec_risks
from rlrun.experiments.spec.experiment import Experiment, TrialSpec, judged_by
from rlrun.experiments.spec.learning import check_learning
from rlrun.experiments.spec.load import load_experiments, parse_experiments

RANDOM = "rlrun.toys:RandomLegal"
ENTRY: dict[str, Any] = {
    "env": {"world": "rlrun.toys:TicTacToe"},
    "policies": {"main": {"algorithm": "ppo"}},
    "mapping": "rlrun.plugin:alternate",
    "seats": {"opponent": {"plays_against": "main", "scripted": {RANDOM: 0.1}, "matchmaking": "uniform"}},
    "league": {"snapshot_every": 5},
    "stop": {"env_steps": 200},
}
SPEC = """\
try:
  env: {world: "rlrun.toys:TicTacToe"}
  policies: {main: {algorithm: ppo}, fixed: {algorithm: ppo}}
  train: [main]
  mapping: {x: main, o: fixed}
  stop: {env_steps: 200}
"""
SEAT = "seats: {opponent: {plays_against: main}}"


def experiment(**changed: Any) -> Experiment:
    (found,) = parse_experiments({"try": {**ENTRY, **changed}})
    return found


def told(lines: str, tmp_path: Path) -> list[str]:
    path = tmp_path / "spec.yaml"
    path.write_text(SPEC + "".join(f"  {line}\n" for line in lines.splitlines()))
    with pytest.raises(SpecError) as caught:
        load_experiments([path])
    return [
        f"{problem.line}:{problem.column}: {problem.path.removeprefix('try.')}: {problem.message}"
        for problem in caught.value.problems
    ]


def test_a_trial_passes_its_seats_and_league_to_training() -> None:
    (trial,) = experiment().trials()
    seat = SeatSettings(plays_against="main", scripted={RANDOM: 0.1}, matchmaking="uniform")
    assert (trial.learns.seats, trial.learns.league) == ({"opponent": seat}, LeagueSettings(snapshot_every=5))
    assert experiment(league=None).first_trial().league == LeagueSettings()


def test_a_trial_without_seats_has_no_league() -> None:
    entry = {key: value for key, value in ENTRY.items() if key not in ("mapping", "seats", "league")}
    (found,) = parse_experiments({"try": entry})
    trial = found.first_trial()
    assert (trial.seats, trial.league, trial.learns.league) == ({}, None, LeagueSettings())


def test_a_trial_with_seats_is_the_same_after_a_round_trip() -> None:
    (trial,) = experiment().trials()
    data = json.loads(json.dumps(trial.to_data()))
    assert TrialSpec.from_data(data) == trial == pickle.loads(pickle.dumps(trial))
    assert Policies.from_data(data).to_data() == trial.learns.to_data()
    assert trial.with_learning(trial.learns) == trial


def test_an_experiment_with_seats_is_the_same_after_a_round_trip_through_its_entry() -> None:
    found = experiment(league={"pool": {"grid_search": [2, 3]}})
    (again,) = parse_experiments({"try": json.loads(json.dumps(found.to_data()))})
    assert again.trials() == found.trials()
    assert again.to_data() == found.to_data()


def test_search_spaces_and_overrides_can_vary_settings_of_seats_and_league(tmp_path: Path) -> None:
    seat = {"plays_against": "main", "self_play_share": {"grid_search": [0.2, 0.4]}}
    path = tmp_path / "spec.yaml"
    path.write_text(json.dumps({"try": {**ENTRY, "seats": {"opponent": seat}}}))
    overrides = ["seats.opponent.matchmaking=uniform", "league.pool={grid_search: [2, 3]}"]
    (found,) = load_experiments([path], overrides)
    trials = found.trials()
    varied = [(trial.params["self_play_share"], trial.params["pool"]) for trial in trials]
    assert varied == [(trial.seats["opponent"].self_play_share, trial.learns.league.pool) for trial in trials]
    assert sorted(varied) == [(0.2, 2), (0.2, 3), (0.4, 2), (0.4, 3)]
    assert {trial.seats["opponent"].matchmaking for trial in trials} == {"uniform"}


def test_scripted_opponents_outside_rlrun_are_listed_as_code_that_needs_permission(wording) -> None:
    own = {"rlrun.toys:GreedyForager": 0.2, "minimax": 0.1, "minimax(depth=2)": 0.1}
    seat = {"plays_against": "main", "scripted": own}
    data = experiment(seats={"opponent": seat}).first_trial().to_data()
    assert not [demand for demand in spec_risks(data) if "scripted" in demand]  # these players ship with rlrun
    data["seats"]["opponent"]["scripted"] = {"my_lab.players:Greedy": 0.2, 'minimax(depth="a/b")': 0.2}
    assert [demand for demand in spec_risks(data) if "scripted" in demand] == wording(
        "seats.opponent.scripted", "my_lab.players:Greedy", "a/b"
    )


@pytest.mark.parametrize(
    ("lines", "messages"),
    [
        (
            "seats: {main: {plays_against: main}}",
            ["7:11: seats.main: 'main' is the name of both a policy and a seat: rename the seat"],
        ),
        (
            "seats: {s: {plays_against: mian, selves_of: [main, fixed]}}",
            [
                ("7:30: seats.s.plays_against: must name a learning policy: unknown name 'mian'; did you mean 'main'?"),
                ("7:54: seats.s.selves_of.1: must name a learning policy: unknown name 'fixed'; must be one of: main"),
            ],
        ),
        (
            "seats: {s: {plays_against: {grid_search: [main, fixed]}}}",
            [
                (
                    "7:51: seats.s.plays_against.grid_search.1: must name a learning policy: unknown "
                    "name 'fixed'; must be one of: main"
                )
            ],
        ),
        (
            "seats: {s: {self_play: 1}, t: 3}",
            [
                "7:11: seats.s.plays_against: is missing",
                "7:15: seats.s.self_play: unknown key 'self_play'; did you mean 'self_play_share'?",
                "7:33: seats.t: must be a mapping (key: value), not 3",
            ],
        ),
        (
            "seats: {s: {plays_against: main, scripted: {'x:Y': 0.8}}}",
            [
                (
                    "7:14: seats.s: self_play_share and the shares of other opponents must sum to at most 1; "
                    "they sum to 1.3"
                )
            ],
        ),
        (
            "seats: {s: {plays_against: main, scripted: {'rlrun.toys:RandomLega': 0.1}}}",
            [
                (
                    "7:47: seats.s.scripted.rlrun.toys:RandomLega: the scripted opponent "
                    "'rlrun.toys:RandomLega' does not exist: rlrun.toys has no 'RandomLega'; did you "
                    "mean 'RandomLegal'?"
                )
            ],
        ),
        ("seats: []", ["7:10: seats: must be a mapping of names to seats, each with plays_against, not []"]),
        ("seats: {a.b: {}}", ["7:11: seats.a.b: the seat name 'a.b' must consist of letters, digits and _-"]),
        (
            "league: {pool: 3}",
            ["7:3: league: a league needs seats: add, for example, seats: {opponent: {plays_against: main}}"],
        ),
        (
            f"{SEAT}\nleague: {{pol: 3, snapshot_every: 0}}",
            [
                "8:12: league.pol: unknown key 'pol'; did you mean 'pool'?",
                "8:36: league.snapshot_every: must be a whole number > 0, not 0",
            ],
        ),
        (
            f"{SEAT}\nself_play_share: 0.3",
            ["8:3: self_play_share: 'self_play_share' belongs under seats.opponent"],
        ),
    ],
)
def test_mistakes_in_seats_are_reported_with_their_line(lines: str, messages: list[str], tmp_path: Path) -> None:
    assert told(lines, tmp_path) == messages


def test_agents_may_be_mapped_to_a_seat_but_a_seat_cannot_be_trained() -> None:
    assert experiment(mapping={"x": "main", "o": "opponent"}).num_trials == 1
    (mistake,) = check_learning({**ENTRY, "train": ["main", "opponent"]}).mistakes
    assert mistake.location == ("train", 1)


def test_league_metrics_are_accepted_even_if_the_seats_contain_mistakes() -> None:
    assert experiment(checkpoint={"best": "league/elo_main"}).checkpoint.best == "league/elo_main"
    with pytest.raises(SpecError) as caught:
        experiment(checkpoint={"best": "league/elo_main"}, seats={"opponent": {"plays_against": "mian"}})
    assert [problem.path for problem in caught.value.problems] == ["try.seats.opponent.plays_against"]


def test_the_best_checkpoint_has_the_highest_league_rating_or_unbeaten_rate_against_an_opponent() -> None:
    assert experiment().checkpoint.best == "league/elo_main"
    assert experiment(evaluation={}).checkpoint.best == "league/elo_main"
    evaluation = {"against": "random"}
    assert experiment(evaluation=evaluation).checkpoint.best == "evaluation/against/unbeaten_rate"


def test_seats_and_a_league_need_several_policies() -> None:
    alone = {"algorithm": "ppo", "env": ENTRY["env"], "seats": ENTRY["seats"], "league": {}}
    assert check_learning(alone).mistakes == [
        Mistake((key,), f"'{key}' needs several policies: add policies, or leave it out", True)
        for key in ("seats", "league")
    ]


def test_trials_with_malformed_policies_and_seats_are_judged_by_the_return() -> None:
    assert judged_by({"train": 5, "policies": 7, "seats": 3}) == "episode_return_mean"
