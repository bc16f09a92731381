"""Populations decide based on scores and their seed alone, and continue after a kill as if there had been none."""

import itertools
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlrun.engine.checkpoint.format import Content, write_checkpoint
from rlrun.engine.messages.errors import Problem, SpecError
from rlrun.experiments.search.lineage import LINEAGE_FILE, Generation, How, Lineage, MemberRecord, read_generations
from rlrun.experiments.search.rules.pb2_explore import gains, modelled
from rlrun.experiments.search.rules.population import Populations, explore
from rlrun.experiments.spec.experiment import TrialSpec
from rlrun.experiments.spec.load import parse_experiments
from rlrun.experiments.spec.settings import settings_of, with_settings
from rlrun.experiments.spec.tuning import Pb2Config, PbtConfig

INTERVAL = 1000


def members(size: int = 4, seeds: int = 1, **pbt: Any) -> tuple[TrialSpec, ...]:
    mutations = {"lr": {"loguniform": [1e-5, 1e-2]}, "num_epochs": {"choice": [1, 2, 4, 8]}}
    scheduler = {"pbt": {"interval_env_steps": INTERVAL, "mutations": mutations, **pbt}}
    data = {
        "algorithm": "ppo",
        "env": "CartPole-v1",
        "stop": {"env_steps": 10 * INTERVAL},
        "config": {"train_batch_size": 200},
        "num_samples": size,
        "seeds": seeds,
        "scheduler": scheduler,
    }
    (experiment,) = parse_experiments({"population": data})
    members.settings = experiment.scheduler.pbt  # type: ignore[attr-defined]
    return tuple(experiment.trials())


class Run:
    """A run's directory whose members reach generations with empty checkpoints."""

    def __init__(self, path: Path, trials: tuple[TrialSpec, ...]) -> None:
        self.path = path
        self.trials = trials
        self.settings = members.settings  # type: ignore[attr-defined]
        path.mkdir(exist_ok=True)
        for trial in trials:
            directory = path / trial.name / "checkpoints" / "iteration_000001"
            if not directory.exists():
                content = Content(manifest={"generation": 0}, spec={}, tensors={}, state={})
                directory.parent.mkdir(parents=True)
                write_checkpoint(directory, content)

    def rule(self, check: Any = None) -> Populations:
        paths = tuple(self.settings.spaces)
        by_name = {trial.name: trial for trial in self.trials}

        def checks(name: str, params: Mapping[str, Any]) -> object:
            return with_settings(by_name[name], params) if check is None else check(name, params)

        rule = Populations(
            self.settings,
            self.trials,
            Lineage(self.path),
            {trial.name: settings_of(trial, paths) for trial in self.trials},
            checks,
        )
        for trial in self.trials:
            rule.add(trial.name)
        return rule

    @property
    def names(self) -> list[str]:
        return [trial.name for trial in self.trials]


def arrive(rule: Populations, scores: Mapping[str, float | None], steps: int) -> dict[str, Any]:
    """Lets members reach a generation; returns the decision about each, by name."""
    decided = {}
    for name, score in scores.items():
        decision = rule.on_result(name, steps, score)
        if decision.verdict != "wait":
            decided[name] = decision
    return {**decided, **rule.released()}


def test_a_result_before_the_next_generation_changes_nothing(tmp_path: Path) -> None:
    run = Run(tmp_path, members())
    assert run.rule().on_result(run.names[0], INTERVAL - 1, 5.0).verdict == "continue"


def test_the_worst_quarter_copies_the_best_members_and_all_members_wait_for_the_slowest(tmp_path: Path) -> None:
    run = Run(tmp_path, members(8))
    rule = run.rule()
    scores = dict(zip(run.names, [5.0, 80.0, 1.0, 40.0, 30.0, 90.0, None, 20.0], strict=True))
    *first, last = run.names
    assert [rule.on_result(name, INTERVAL + 10, scores[name]).verdict for name in first] == ["wait"] * 7
    assert rule.released() == {}
    decided = {last: rule.on_result(last, INTERVAL + 10, scores[last]), **rule.released()}
    assert {decision.verdict for decision in decided.values()} == {"continue"}
    parents = {name: decision.orders.parent for name, decision in decided.items() if decision.orders.parent}
    worst, best = {run.names[2], run.names[6]}, {run.names[1], run.names[5]}
    assert set(parents) == worst
    assert set(parents.values()) <= best
    for name, parent in parents.items():
        assert decided[name].orders.checkpoint == str(tmp_path / "generations" / parent / "000001")
        assert Path(decided[name].orders.checkpoint).is_dir()
    assert {decision.orders.generation for decision in decided.values()} == {1}
    assert {decision.verdict for decision in arrive(rule, scores, INTERVAL + 100).values()} == {"continue"}


def test_generations_of_training_from_data_alone_are_measured_in_sgd_steps(tmp_path: Path) -> None:
    run = Run(tmp_path, members())
    run.settings = run.settings.replace(interval_env_steps=None, interval_sgd_steps=50)
    scores = dict(zip(run.names, [5.0, 80.0, 1.0, 40.0], strict=True))
    assert arrive(run.rule(), scores, 49).keys() == set(run.names)  # none waits
    decided = arrive(run.rule(), scores, 60)
    assert decided[run.names[2]].orders.parent == run.names[1]
    newest = read_generations(tmp_path)[-1]
    assert newest.generation == 1
    assert {(member.env_steps, member.sgd_steps, member.steps) for member in newest.members} == {(0, 60, 60)}
    assert run.rule().orders(run.names[2]) == decided[run.names[2]].orders  # known after a kill, too


def test_no_member_is_copied_if_all_scores_are_equal(tmp_path: Path) -> None:
    run = Run(tmp_path, members())
    decided = arrive(run.rule(), dict.fromkeys(run.names, 500.0), INTERVAL)
    assert [decision.orders.parent for decision in decided.values()] == [None] * 4


def test_the_order_in_which_members_report_does_not_matter(tmp_path: Path) -> None:
    trials = members(3, quantile_fraction=0.34)
    scores = dict(zip([trial.name for trial in trials], [3.0, 1.0, 4.0], strict=True))
    written = set()
    for number, order in enumerate(itertools.permutations(scores)):
        run = Run(tmp_path / str(number), trials)
        arrive(run.rule(), {name: scores[name] for name in order}, INTERVAL)
        written.add((run.path / LINEAGE_FILE).read_text())
    assert len(written) == 1


def test_each_seed_has_its_own_population(tmp_path: Path) -> None:
    run = Run(tmp_path, members(4, seeds=2))
    assert [trial.population for trial in run.trials].count(0) == 4
    rule = run.rule()
    first = [trial.name for trial in run.trials if trial.population == 0]
    decided = arrive(rule, {name: float(score) for score, name in enumerate(first)}, INTERVAL)
    assert set(decided) == set(first)
    parents = [decision.orders.parent for decision in decided.values() if decision.orders.parent]
    assert parents == [first[-1]]
    beginnings = [line for line in read_generations(tmp_path) if line.generation == 0]
    assert len({json.dumps([member.params for member in line.members]) for line in beginnings}) == 2


@pytest.mark.parametrize("synchronous", [True, False])
def test_a_kill_at_any_point_does_not_change_the_lineage(tmp_path: Path, synchronous: bool) -> None:
    trials = members(synchronous=synchronous)
    draws = np.random.default_rng(0)
    scores = [dict(zip([trial.name for trial in trials], draws.normal(size=4), strict=True)) for _ in range(5)]
    whole = Run(tmp_path / "whole", trials)
    rule = whole.rule()
    for generation, by_name in enumerate(scores, start=1):
        arrive(rule, by_name, generation * INTERVAL)
    expected = (whole.path / LINEAGE_FILE).read_bytes()

    for arrivals in range(1, 20, 3):  # the driver is killed after this many arrivals
        run = Run(tmp_path / f"killed-{arrivals}", trials)
        rule, count = run.rule(), 0
        for generation, by_name in enumerate(scores, start=1):
            for name in run.names:
                if count == arrivals:
                    with (run.path / LINEAGE_FILE).open("ab") as file:
                        file.write(b'{"population": 0, "gener')
                    rule = run.rule()
                    for earlier in run.names[: run.names.index(name)]:  # these have reached this generation
                        rule.on_result(earlier, generation * INTERVAL, by_name[earlier])
                rule.on_result(name, generation * INTERVAL, by_name[name])
                count += 1
        lines = [line for line in (run.path / LINEAGE_FILE).read_bytes().splitlines() if line.endswith(b"}")]
        assert lines == expected.splitlines(), arrivals


def test_orders_are_given_again_unchanged_after_a_kill(tmp_path: Path) -> None:
    run = Run(tmp_path, members())
    rule = run.rule()
    decided = arrive(rule, dict(zip(run.names, [4.0, 3.0, 2.0, 1.0], strict=True)), INTERVAL)
    again = run.rule()
    assert {name: again.orders(name) for name in run.names} == {name: each.orders for name, each in decided.items()}
    assert again.orders(run.names[3]) is not None
    assert again.orders(run.names[3]).parent == run.names[0]  # type: ignore[union-attr]


def test_the_population_does_not_wait_for_a_member_that_has_ended(tmp_path: Path) -> None:
    run = Run(tmp_path, members())
    rule = run.rule()
    for name in run.names[:3]:
        assert rule.on_result(name, INTERVAL, 1.0).verdict == "wait"
    rule.remove(run.names[3])
    assert set(rule.released()) == set(run.names[:3])


def test_a_diverged_member_continues_from_another_member(tmp_path: Path) -> None:
    run = Run(tmp_path, members())
    rule = run.rule()
    assert rule.diverged(run.names[1]).verdict == "wait"
    decided = arrive(rule, {name: 7.0 for name in run.names if name != run.names[1]}, INTERVAL)
    assert decided[run.names[1]].orders.parent in run.names
    assert decided[run.names[1]].orders.parent != run.names[1]


def test_a_population_whose_members_have_all_diverged_stops(tmp_path: Path) -> None:
    run = Run(tmp_path, members(2))
    rule = run.rule()
    rule.diverged(run.names[0])
    decided = {run.names[1]: rule.diverged(run.names[1]), **rule.released()}
    assert {decision.verdict for decision in decided.values()} == {"stop"}


def test_settings_that_the_config_refuses_are_redrawn_and_the_parents_are_kept_if_all_are_refused(
    tmp_path: Path,
) -> None:
    run = Run(tmp_path, members())
    tried = []

    def refuse(name: str, params: Mapping[str, Any]) -> None:
        tried.append(dict(params))
        raise SpecError([Problem("config", "no")])

    rule = run.rule(refuse)
    decided = arrive(rule, dict(zip(run.names, [4.0, 3.0, 2.0, 1.0], strict=True)), INTERVAL)
    orders = decided[run.names[3]].orders
    assert orders.parent == run.names[0]
    assert len({json.dumps(params) for params in tried}) > 1
    (line,) = [line for line in read_generations(tmp_path) if line.generation == 1]
    assert orders.params == line.members[0].params


def test_checkpoints_of_earlier_generations_are_removed(tmp_path: Path) -> None:
    run = Run(tmp_path, members())
    rule = run.rule()
    for generation in range(1, 6):
        arrive(rule, {name: float(place * generation % 5) for place, name in enumerate(run.names)}, generation * 1000)
    kept = sorted(path.name for path in (tmp_path / "generations").glob("*/*"))
    assert set(kept) == {"000005"}


@given(st.integers(0, 2**31), st.floats(1e-5, 1e-2), st.sampled_from([1, 2, 4, 8]))
def test_explored_settings_stay_in_their_ranges(seed: int, lr: float, epochs: int) -> None:
    members()
    settings = members.settings  # type: ignore[attr-defined]
    found, how = explore(settings, {"lr": lr, "num_epochs": epochs}, np.random.default_rng(seed))
    assert 1e-5 <= found["lr"] <= 1e-2
    assert found["num_epochs"] in (1, 2, 4, 8)
    if how == "perturbed":
        assert found["lr"] in [min(max(lr * factor, 1e-5), 1e-2) for factor in (0.8, 1.2)]
        assert abs([1, 2, 4, 8].index(found["num_epochs"]) - [1, 2, 4, 8].index(epochs)) <= 1


def test_the_gain_of_a_copy_starts_at_its_parents_score_even_with_one_member_per_record() -> None:
    def line(number: int, trial: str, score: float, parent: str | None = None) -> Generation:
        how: How = "kept" if parent is None else "modelled"
        member = MemberRecord(trial, score, number * INTERVAL, how, parent, number if parent else None, {"lr": 0.1})
        return Generation(0, number, (member,))

    lines = [line(1, "a", 50.0), line(1, "b", 10.0, "a"), line(2, "b", 56.0), line(2, "a", 51.0)]
    assert [(gain.score, gain.change) for gain in gains(lines, 1.0)] == [(50.0, 6.0), (50.0, 1.0)]


def test_the_order_of_mutations_does_not_affect_explored_settings() -> None:
    spaces = {"lr": {"loguniform": [1e-5, 1e-2]}, "num_epochs": {"choice": [1, 2, 4]}, "gamma": {"uniform": [0.9, 1.0]}}
    params = {"lr": 1e-3, "num_epochs": 2, "gamma": 0.95}
    orders = [dict(order) for order in itertools.permutations(spaces.items())]
    configs = [PbtConfig.parse({"interval_env_steps": 1, "mutations": order}) for order in orders]
    for seed in range(10):
        found = [explore(config, params, np.random.default_rng(seed)) for config in configs]
        assert all(other == found[0] for other in found)


def test_the_order_of_bounds_does_not_affect_chosen_settings() -> None:
    bounds = {"lr": [1e-5, 1e-2], "gamma": [0.9, 1.0]}
    orders = [dict(order) for order in itertools.permutations(bounds.items())]
    found = [
        modelled(
            Pb2Config.parse({"interval_env_steps": 1, "bounds": order, "log_scale": ["lr"]}),
            [],
            generation=1,
            score=1.0,
            taken=[],
            draws=np.random.default_rng(3),
        )
        for order in orders
    ]
    assert found[0] == found[1]
