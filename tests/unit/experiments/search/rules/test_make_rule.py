"""The rule made from a spec's scheduler."""

from rlrun.experiments.search.rules.asha import Asha
from rlrun.experiments.search.rules.hyperband import HyperBand
from rlrun.experiments.search.rules.median import Median
from rlrun.experiments.search.rules.rule import Rule
from rlrun.experiments.search.rules_of_run import make_rule
from rlrun.experiments.spec.tuning import SchedulerConfig

STOP = {"env_steps": 160_000.0, "iteration": 90.0}


def rule_of(scheduler: object, trials: int = 9) -> Rule:
    return make_rule(SchedulerConfig.parse(scheduler), STOP, trials)


def test_asha_derives_its_limit_from_the_stop_condition_and_has_two_rungs_before_it(wording):
    rule = rule_of("asha")
    assert isinstance(rule, Asha)
    assert rule.rungs == ((10_000, 40_000),)
    assert rule.on_result("a", 160_000, 1).reason == wording("160,000")


def test_asha_accepts_each_of_its_settings(wording):
    settings = {"max_t": 60, "grace_period": 2, "reduction_factor": 3, "brackets": 2, "time_attr": "iteration"}
    rule = rule_of({"asha": {**settings, "metric": "learner/loss", "mode": "min"}})
    assert isinstance(rule, Asha)
    assert rule.rungs == ((2, 6, 18, 54), (6, 18, 54))
    for trial, score in (("a", -1), ("b", -2)):
        rule.add(trial)
        last = rule.on_result(trial, 6, score)
    assert last.verdict == "continue"  # b is in the other bracket
    rule.add("c")
    assert rule.on_result("c", 2, -3).verdict == "continue"
    rule.add("d")
    assert rule.on_result("d", 2, -4).reason == wording()


def test_hyperband_fills_small_brackets_first_and_reduces_each_at_most_three_times():
    rule = rule_of("hyperband")
    assert isinstance(rule, HyperBand)
    assert [plan.places for plan in rule.plans] == [(4,), (6, 2), (12, 4, 2), (27, 9, 3, 1)]
    assert rule.plans[3].rungs == (160_000 / 27, 160_000 / 9, 160_000 / 3, 160_000)


def test_bohb_fills_large_brackets_first_and_gives_reasons_under_its_own_name(wording):
    rule = rule_of({"bohb": {"grace_period": 10, "time_attr": "iteration"}}, trials=2)
    assert isinstance(rule, HyperBand)
    assert [plan.rungs for plan in rule.plans] == [(10, 30, 90), (30, 90), (90,)]
    rule.add("a")
    assert rule.on_result("a", 10, 0).reason == wording("10")


def test_median_stops_no_trial_in_the_first_tenth_of_its_run():
    rule = rule_of({"median": {"min_samples_required": 1}})
    assert isinstance(rule, Median)
    rule.on_result("a", 15_999, 9)
    assert rule.on_result("b", 15_999, 1).verdict == "continue"
    rule.on_result("a", 16_000, 9)
    assert rule.on_result("b", 16_000, 1).verdict == "stop"
    assert rule_of({"median": {"grace_period": 1}}).on_result("a", 1, 1).verdict == "continue"


def test_make_rule_refuses_population_schedulers(wording):
    scheduler = {"pb2": {"interval_env_steps": 1000, "bounds": {"lr": [1e-5, 1e-2]}}}
    with wording.raised(ValueError):
        rule_of(scheduler)
