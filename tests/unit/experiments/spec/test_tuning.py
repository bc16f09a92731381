"""Valid settings of schedulers, searchers and failures, and their meanings."""

import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete

from rlrun.engine.datasets.writer import SetWriter
from rlrun.engine.messages.errors import SpecError
from rlrun.experiments.spec.experiment import ExpectConfig, Experiment, RunSettings
from rlrun.experiments.spec.load import parse_experiments
from rlrun.experiments.spec.tuning import (
    AshaConfig,
    BohbConfig,
    FailureConfig,
    HyperBandConfig,
    MedianConfig,
    ModelSearchConfig,
    PbtConfig,
    SchedulerConfig,
    SearcherConfig,
)

PBT = {
    "interval_env_steps": 2e4,
    "mutations": {"lr": {"loguniform": [1e-5, 1e-2]}, "model.activation": {"choice": ["relu", "tanh"]}},
}
PB2 = {"interval_env_steps": 2e4, "bounds": {"lr": [1e-5, 1e-2], "gae_lambda": [0.9, 1]}, "log_scale": ["lr"]}
STOP = {"env_steps": 100_000.0, "iteration": 50.0}


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("asha", SchedulerConfig(asha=AshaConfig())),
        ({"asha": None}, SchedulerConfig(asha=AshaConfig())),  # as if all lines below it are commented out
        ({"asha": {"grace_period": 1e4}}, SchedulerConfig(asha=AshaConfig(grace_period=10_000.0))),
        ("hyperband", SchedulerConfig(hyperband=HyperBandConfig())),
        ("median", SchedulerConfig(median=MedianConfig())),
        ("bohb", SchedulerConfig(bohb=BohbConfig())),
        ({"pbt": PBT}, SchedulerConfig(pbt=PbtConfig.parse(PBT))),
    ],
)
def test_a_scheduler_is_a_name_or_a_mapping_with_one_key(written: Any, meant: SchedulerConfig) -> None:
    assert SchedulerConfig.parse(written) == meant


@pytest.mark.parametrize("written", ["asha", "hyperband", "median", "bohb", {"pbt": PBT}, {"pb2": PB2}])
def test_a_scheduler_is_unchanged_by_a_round_trip_through_json_or_pickle(written: Any) -> None:
    made = SchedulerConfig.parse(written)
    data = json.loads(json.dumps(made.to_data()))
    assert list(data) == [made.kind]
    assert SchedulerConfig.parse(data) == made
    assert pickle.loads(pickle.dumps(made)) == made


def test_schedulers_have_the_documented_defaults() -> None:
    judging = {"metric": "episode_return_mean", "mode": "max"}
    timed = {**judging, "time_attr": "env_steps"}
    assert AshaConfig().to_data() == {
        **timed,
        "max_t": None,
        "grace_period": None,
        "reduction_factor": 4,
        "brackets": 1,
    }
    halving = {**timed, "max_t": None, "grace_period": None, "reduction_factor": 3}
    assert HyperBandConfig().to_data() == BohbConfig().to_data() == halving
    assert MedianConfig().to_data() == {**timed, "grace_period": None, "min_samples_required": 3}
    assert SchedulerConfig.parse({"pbt": PBT}).to_data()["pbt"] == {
        **judging,
        "interval_sgd_steps": None,
        **PBT,
        "quantile_fraction": 0.25,
        "resample_probability": 0.25,
        "perturbation_factors": [0.8, 1.2],
        "synchronous": True,
    }
    assert SchedulerConfig.parse({"pb2": PB2}).to_data()["pb2"] == {
        **judging,
        "interval_sgd_steps": None,
        **PB2,
        "quantile_fraction": 0.25,
        "synchronous": True,
    }


def test_a_scheduler_has_the_kind_and_settings_of_its_entry_and_a_population_for_pbt_and_pb2() -> None:
    asha, pbt, pb2 = (SchedulerConfig.parse(data) for data in ("asha", {"pbt": PBT}, {"pb2": PB2}))
    assert [made.kind for made in (asha, pbt, pb2)] == ["asha", "pbt", "pb2"]
    assert (asha.settings, asha.population) == (asha.asha, None)
    assert pbt.settings is pbt.population is pbt.pbt
    assert pb2.settings is pb2.population is pb2.pb2


def test_a_population_has_a_search_space_for_each_path_it_changes() -> None:
    pbt, pb2 = SchedulerConfig.parse({"pbt": PBT}).population, SchedulerConfig.parse({"pb2": PB2}).population
    assert pbt is not None
    assert pb2 is not None
    assert {path: space.to_data() for path, space in pbt.spaces.items()} == PBT["mutations"]
    assert {path: space.to_data() for path, space in pb2.spaces.items()} == {
        "lr": {"loguniform": [1e-5, 1e-2]},  # searched on a logarithmic scale
        "gae_lambda": {"uniform": [0.9, 1.0]},
    }


def test_default_limits_and_first_rungs_of_schedulers_follow_from_the_stop_condition() -> None:
    assert AshaConfig().limit(STOP) == 100_000
    assert AshaConfig().first_rung(STOP) == 6_250  # 100,000 / 4**2
    assert AshaConfig(max_t=8_000.0, reduction_factor=2.0).first_rung({}) == 2_000
    assert AshaConfig(grace_period=500.0).first_rung({}) == 500
    assert HyperBandConfig(time_attr="iteration").limit(STOP) == 50
    assert HyperBandConfig(max_t=27_000.0).first_rung({}) == 1_000  # 27,000 / 3**3
    assert MedianConfig().first_time(STOP) == 10_000
    assert MedianConfig(grace_period=500.0).first_time({}) == 500


def test_replacing_settings_of_a_scheduler_config_can_switch_to_a_different_scheduler() -> None:
    asha = SchedulerConfig.parse("asha")
    assert asha.replace() == asha
    assert asha.replace(median={}).kind == "median"


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("optuna", SearcherConfig(optuna=ModelSearchConfig())),
        ({"optuna": {"mode": "min"}}, SearcherConfig(optuna=ModelSearchConfig(mode="min"))),
        ({"bohb": {"max_concurrent": 2}}, SearcherConfig(bohb=ModelSearchConfig(max_concurrent=2))),
    ],
)
def test_a_searcher_is_a_name_or_a_mapping_with_one_key(written: Any, meant: SearcherConfig) -> None:
    made = SearcherConfig.parse(written)
    assert made == meant
    assert made.settings is getattr(made, made.kind)
    assert SearcherConfig.parse(json.loads(json.dumps(made.to_data()))) == made


def test_random_search_has_no_settings() -> None:
    assert SearcherConfig.parse("random").settings is None
    assert SearcherConfig.parse("random").to_data() == {"random": {}}
    with pytest.raises(SpecError, match="unknown key 'metric'"):
        SearcherConfig.parse({"random": {"metric": "episode_return_mean"}})


@pytest.mark.parametrize(
    ("made", "message"),
    [
        ({"asha": {}, "median": {}}, "there can be only one scheduler, not 2: asha, median"),
        ({"asha": None, "pbt": PBT}, "there can be only one scheduler, not 2: asha, pbt"),
        ({}, "unknown scheduler; must be one of: asha, hyperband, median, bohb, pbt, pb2"),
        (["asha"], "must be the name of a scheduler or a mapping with one (asha, hyperband, median, bohb, pbt, pb2)"),
    ],
)
def test_a_scheduler_section_without_exactly_one_known_scheduler_is_rejected(made: Any, message: str) -> None:
    with pytest.raises(SpecError) as caught:
        SchedulerConfig.parse(made)
    assert message in str(caught.value)


def test_tuning_restarts_and_loggers_are_off_by_default() -> None:
    settings = RunSettings.parse({"stop": {"env_steps": 1}})
    assert (settings.scheduler, settings.searcher, settings.storage) == (None, None, None)
    assert settings.failure == FailureConfig(max_restarts=0)
    assert settings.loggers.services == ()
    said = RunSettings.parse({"stop": {"env_steps": 1}, "failure": {"max_restarts": 3}, "storage": "s3://b/c"})
    assert (said.failure.max_restarts, said.storage) == (3, "s3://b/c")


@pytest.mark.parametrize(("seeds", "passes"), [(1, 1), (2, 2), (3, 2), (4, 3), (6, 4), (10, 7)])
def test_by_default_two_thirds_of_the_seeds_must_pass(seeds: int, passes: int) -> None:
    assert ExpectConfig.parse({"episode_return_mean": 1}).required_passes(seeds) == passes
    assert ExpectConfig.parse({"episode_return_mean": 1, "passes": 1}).required_passes(seeds) == 1


def of_data(folder: Path, **keys: Any) -> Experiment:
    """Returns a search over trials that learn from a data set."""
    with SetWriter(folder / "data", Box(-1, 1, (2,)), Discrete(2)) as writer:
        ends = np.array([False, True])
        steps = {
            "actions": np.zeros(2, np.int64),
            "rewards": np.ones(2),
            "terminateds": ends,
            "truncateds": ~ends & ends,
        }
        writer.add_episode({"obs": np.zeros((3, 2), np.float32), **steps})
    config = {"input": str(folder / "data"), "lr": {"choice": [1e-3, 1e-4]}, "sgd_steps_per_iteration": 50}
    entry = {"algorithm": "bc", "num_samples": 4, "config": config, "stop": {"sgd_steps": 900}, **keys}
    (experiment,) = parse_experiments({"tuned": entry})
    return experiment


def test_schedulers_compare_trials_that_learn_from_data_by_their_evaluations_over_sgd_steps(tmp_path: Path) -> None:
    judged = {"evaluation": {"every": 1, "episodes": 1, "env": "CartPole-v1"}}
    scheduler = of_data(tmp_path, scheduler="asha", **judged).scheduler
    assert scheduler is not None
    assert isinstance(scheduler.settings, AshaConfig)
    assert (scheduler.time_attr, scheduler.settings.metric) == ("sgd_steps", "evaluation/episode_return_mean")
    assert scheduler.settings.limit({"sgd_steps": 900}) == 900


MUTATIONS = {"lr": {"loguniform": [1e-5, 1e-2]}}


def test_generations_of_members_that_learn_from_data_end_at_evaluations_and_are_in_sgd_steps(tmp_path: Path) -> None:
    judged = {"evaluation": {"every": 2, "episodes": 1, "env": "CartPole-v1"}}
    population = of_data(tmp_path, scheduler={"pbt": {"interval_sgd_steps": 300, "mutations": MUTATIONS}}, **judged)
    assert population.population is not None
    assert (population.population.time_attr, population.population.interval) == ("sgd_steps", 300)
    assert population.population.metric == "evaluation/episode_return_mean"
    message = r"must be a multiple of the SGD steps between two evaluations \(100\), not 250"
    with pytest.raises(SpecError, match=message):
        of_data(tmp_path / "x", scheduler={"pbt": {"interval_sgd_steps": 250, "mutations": MUTATIONS}}, **judged)


@pytest.mark.parametrize(
    ("scheduler", "message"),
    [
        ("asha", r"scheduler\.asha\.metric: trials that learn from data have no episodes: add evaluation, or use"),
        (
            {"asha": {"metric": "learner/log_prob", "time_attr": "env_steps", "max_t": 9}},
            r"time_attr: no env is stepped",
        ),
        (
            {"pbt": {"interval_env_steps": 100, "mutations": MUTATIONS, "metric": "learner/log_prob"}},
            r"scheduler\.pbt\.interval_env_steps: no env is stepped: use interval_sgd_steps$",
        ),
        (
            {"pbt": {"interval_sgd_steps": 100, "mutations": MUTATIONS}},
            r"scheduler\.pbt\.metric: trials that learn from data have no episodes: add evaluation, or use",
        ),
        (
            {"pbt": {"interval_sgd_steps": 40, "mutations": MUTATIONS, "metric": "learner/log_prob"}},
            r"interval_sgd_steps: must be at least the SGD steps of an iteration \(50\), not 40",
        ),
        (
            {"pb2": {"interval_sgd_steps": 900, "bounds": {"lr": [1e-4, 1e-2]}, "metric": "learner/log_prob"}},
            r"scheduler\.pb2\.interval_sgd_steps: must be below stop\.sgd_steps \(900\), not .* no generation",
        ),
        (
            {"pbt": {"interval_env_steps": 100, "interval_sgd_steps": 100, "mutations": MUTATIONS}},
            r"scheduler\.pbt: set exactly one of interval_env_steps and interval_sgd_steps",
        ),
    ],
)
def test_scheduler_metrics_and_intervals_that_need_an_env_are_rejected_for_trials_without_one(
    scheduler: Any, message: str, tmp_path: Path
) -> None:
    with pytest.raises(SpecError, match=message):
        of_data(tmp_path, scheduler=scheduler)
