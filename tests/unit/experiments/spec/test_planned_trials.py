"""The trials of an experiment: sweeps, populations, and trials made by a searcher."""

import json
from typing import Any

import pytest

from rlrun.engine.functional.seeding import child_seed
from rlrun.engine.messages.errors import SpecError
from rlrun.experiments.spec.experiment import Experiment, TrialSpec
from rlrun.experiments.spec.load import parse_experiments

LR = {"loguniform": [1e-5, 1e-2]}
POPULATION = {
    "scheduler": {
        "pbt": {"interval_env_steps": 2e4, "mutations": {"lr": LR, "model.activation": {"choice": ["relu", "tanh"]}}}
    },
    "num_samples": 4,
}
SEARCH = {"searcher": "optuna", "num_samples": 20, "config": {"lr": LR, "gamma": {"uniform": [0.9, 0.99]}}}


def experiment(**changes: Any) -> Experiment:
    entry = {"algorithm": "ppo", "env": "CartPole-v1", "stop": {"env_steps": 1e5}, **changes}
    (made,) = parse_experiments({"try": entry})
    return made


def test_trials_that_differ_only_in_their_seed_have_the_same_configuration_number() -> None:
    trials = experiment(seeds=2, config={"lr": {"grid_search": [1e-3, 1e-4, 1e-5]}}).trials()
    assert [trial.configuration for trial in trials] == [0, 0, 1, 1, 2, 2]
    assert [trial.population for trial in trials] == [None] * 6


def test_trials_take_max_restarts_and_loggers_from_their_experiment() -> None:
    (trial,) = experiment(failure={"max_restarts": 3}, loggers=["wandb"]).trials()
    assert trial.max_restarts == 3
    assert trial.loggers.services == ("wandb",)


def test_each_seed_has_its_own_population() -> None:
    trials = experiment(**POPULATION, seeds=[4, 7]).trials()
    assert [trial.name for trial in trials] == [
        "000-population=4-member=0",
        "001-population=4-member=1",
        "002-population=4-member=2",
        "003-population=4-member=3",
        "004-population=7-member=0",
        "005-population=7-member=1",
        "006-population=7-member=2",
        "007-population=7-member=3",
    ]
    assert [trial.index for trial in trials] == list(range(8))
    assert [trial.population for trial in trials] == [4] * 4 + [7] * 4
    assert [trial.configuration for trial in trials] == [0, 1, 2, 3] * 2
    assert [trial.seed for trial in trials] == [
        child_seed(population, "member", member) >> 32 for population in (4, 7) for member in range(4)
    ]
    assert len({trial.seed for trial in trials}) == 8
    assert all(0 <= trial.seed < 2**31 for trial in trials)


def test_each_member_draws_a_start_for_mutated_settings_missing_from_the_config() -> None:
    trials = experiment(**POPULATION, seeds=2).trials()
    rates = [trial.config.lr for trial in trials]
    assert len(set(map(str, rates))) == 8
    assert all(isinstance(rate, float) and 1e-5 <= rate <= 1e-2 for rate in rates)
    assert {trial.config.model.activation for trial in trials} == {"relu", "tanh"}
    assert [trial.params for trial in trials] == [
        {"lr": trial.config.lr, "activation": trial.config.model.activation} for trial in trials
    ]


def test_a_members_start_depends_only_on_population_setting_and_member_number() -> None:
    few = experiment(**POPULATION).trials()
    more = experiment(
        **{**POPULATION, "num_samples": 6}, seeds=[7, 0], config={"gamma": {"uniform": [0.9, 0.99]}}
    ).trials()
    assert [trial.config.lr for trial in few] == [trial.config.lr for trial in more if trial.population == 0][:4]


def test_mutated_settings_given_in_the_config_start_at_the_given_value() -> None:
    trials = experiment(**POPULATION, config={"lr": 1e-3}).trials()
    assert [trial.params["lr"] for trial in trials] == [trial.config.lr for trial in trials] == [1e-3] * 4
    assert experiment(**POPULATION, config={"model": {"activation": "relu"}}).trials()[3].params["activation"] == "relu"


def test_search_spaces_in_the_config_of_a_population_are_drawn_as_in_a_sweep() -> None:
    config = {"lr": {"grid_search": [1e-3, 1e-4]}, "gamma": {"uniform": [0.9, 0.99]}}
    drawn = experiment(config=config, num_samples=4, seeds=[3]).trials()
    members = experiment(**POPULATION, config=config, seeds=[3]).trials()
    assert [(trial.config.lr, trial.config.gamma) for trial in members] == [
        (trial.config.lr, trial.config.gamma) for trial in drawn
    ]
    assert len(members) == 8
    assert list(members[0].params) == ["lr", "gamma", "activation"]


def test_population_members_are_unchanged_by_a_round_trip_through_json() -> None:
    for trial in experiment(**POPULATION, seeds=2).trials():
        assert TrialSpec.from_data(json.loads(json.dumps(trial.to_data()))) == trial


@pytest.mark.parametrize("changes", [POPULATION, {**SEARCH, "scheduler": "asha"}, {"scheduler": "median", "seeds": 4}])
def test_an_experiment_with_a_scheduler_is_unchanged_by_a_round_trip(changes: dict[str, Any]) -> None:
    made = experiment(**changes)
    (back,) = parse_experiments({"try": json.loads(json.dumps(made.to_data()))})
    assert back.to_data() == made.to_data()
    assert back.trials() == made.trials()


def test_members_of_pb2_start_with_values_drawn_from_its_bounds() -> None:
    bandits = {"pb2": {"interval_env_steps": 2e4, "bounds": {"lr": [1e-5, 1e-2]}, "log_scale": ["lr"]}}
    alike = {"pbt": {"interval_env_steps": 2e4, "mutations": {"lr": LR}}}
    made, other = (experiment(scheduler=scheduler, num_samples=4).trials() for scheduler in (bandits, alike))
    assert [trial.config.lr for trial in made] == [trial.config.lr for trial in other]


def test_with_a_searcher_only_the_number_of_trials_is_known_in_advance() -> None:
    made = experiment(**SEARCH, seeds=3)
    assert made.searches
    assert made.trials() == []
    assert (made.num_configurations, made.num_trials) == (20, 60)


def test_a_suggested_configuration_becomes_a_trial_and_an_invalid_one_is_rejected(wording) -> None:
    made = experiment(**SEARCH, seeds=[5, 6])
    values = {("config", "lr"): 1e-3, ("config", "gamma"): 0.95}
    trial = made.trial(values, index=7, configuration=3, seed=6)
    assert (trial.name, trial.index, trial.seed) == ("007-lr=0.001-gamma=0.95-seed=6", 7, 6)
    assert (trial.configuration, trial.population) == (3, None)
    assert trial.params == {"lr": 1e-3, "gamma": 0.95}
    assert (trial.config.lr, trial.config.gamma) == (1e-3, 0.95)
    with wording.raised(SpecError, "try.config.gamma"):
        made.trial({**values, ("config", "gamma"): 2}, index=8, configuration=4, seed=5)


def test_the_first_trial_is_the_first_planned_one_or_for_a_search_an_example() -> None:
    swept = experiment(config={"lr": LR}, num_samples=3)
    assert swept.first_trial() == swept.trials()[0]
    population = experiment(**POPULATION)
    assert population.first_trial() == population.trials()[0]
    searched = experiment(**SEARCH).first_trial()
    assert searched.index == 0
    assert set(searched.params) == {"lr", "gamma"}


def test_the_example_trial_of_a_search_satisfies_rules_across_settings() -> None:
    config = {"minibatch_size": {"choice": [64, 1024]}, "train_batch_size": {"choice": [2048, 512]}}
    for seed in range(8):
        first = experiment(searcher="optuna", num_samples=20, config=config, seeds=[seed]).first_trial()
        assert first.params["minibatch_size"] <= first.params["train_batch_size"]


def test_the_searcher_random_plans_the_same_trials_as_no_searcher() -> None:
    plain = {"config": {"lr": LR}, "num_samples": 3}
    assert experiment(**plain, searcher="random").trials() == experiment(**plain).trials()


def test_more_trials_than_max_trials_are_rejected(wording) -> None:
    entry = {"algorithm": "ppo", "env": "CartPole-v1", "stop": {"env_steps": 1e5}, "num_samples": 30, "seeds": 2}
    data = {"try": {**entry, "config": {"lr": LR}}}
    with pytest.raises(SpecError) as caught:
        parse_experiments(data, max_trials=59)
    assert str(caught.value) == wording("60", "59")
    assert len(parse_experiments(data, max_trials=60)[0].trials()) == 60
