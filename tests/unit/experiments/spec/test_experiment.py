import json
from typing import Any

import pytest

from rlrun.algorithms.ppo import PPOConfig
from rlrun.engine.envs.env_config import EnvConfig
from rlrun.engine.messages.errors import SpecError
from rlrun.experiments.spec.experiment import (
    CheckpointConfig,
    EvaluationConfig,
    ExpectConfig,
    Experiment,
    ResourcesConfig,
    RunSettings,
    TrialSpec,
)
from rlrun.experiments.spec.load import parse_experiments
from rlrun.experiments.spec.trial_names import short_names, trial_name


def experiment(**changes: Any) -> Experiment:
    entry = {"algorithm": "ppo", "env": "CartPole-v1", "stop": {"env_steps": 1e5}, **changes}
    (made,) = parse_experiments({"try": entry})
    return made


def test_settings_missing_from_an_entry_get_their_defaults() -> None:
    made = experiment()
    assert made.name == "try"
    assert made.env == EnvConfig(id="CartPole-v1")
    assert made.config == PPOConfig()
    assert made.seeds == (0,)
    assert made.stop.bounds == {"env_steps": 100_000}
    assert made.checkpoint == CheckpointConfig(every=25, at_end=True, keep=3, best="episode_return_mean")
    assert made.evaluation is None
    assert made.resources == ResourcesConfig(cpus=1.0)
    assert made.expect is None


@pytest.mark.parametrize(
    ("said", "best"),
    [
        ({}, "episode_return_mean"),
        ({"evaluation": {"every": 5}}, "evaluation/episode_return_mean"),
        ({"evaluation": {"every": 5}, "checkpoint": {"keep": 2}}, "evaluation/episode_return_mean"),
        ({"evaluation": {"every": 5}, "checkpoint": {"best": "episode_return_mean"}}, "episode_return_mean"),
        ({"evaluation": {"every": 5}, "checkpoint": {"best": None}}, None),
    ],
)
def test_the_resolved_spec_names_the_best_metric_which_is_an_evaluation_metric_if_there_are_evaluations(
    said: dict[str, Any], best: str | None
) -> None:
    made = experiment(**said)
    assert made.checkpoint.best == best
    assert made.to_data()["checkpoint"]["best"] == best
    (trial,) = made.trials()
    assert trial.judged_by == best or best is None
    again = TrialSpec.from_data({**trial.to_data(), "checkpoint": {"best": "episode_return_mean"}})
    assert again.judged_by == "episode_return_mean"  # a run keeps the metric that it began with


def test_sections_are_parsed_into_config_objects_with_typed_values() -> None:
    made = experiment(
        config={"lr": [[0, 1e-3], [1e5, 0]], "num_epochs": 4.0},
        checkpoint={"every": None, "best": None},
        evaluation={"episodes": 5, "env": "CartPole-v0", "actions": "sampled"},
        resources={"cpus": 2},
        expect={"episode_return_mean": 450, "within_env_steps": 1e5},
    )
    assert isinstance(made.config, PPOConfig)
    assert (made.config.lr, made.config.num_epochs) == (((0, 1e-3), (100_000, 0.0)), 4)
    assert made.checkpoint == CheckpointConfig(every=None, best=None)
    assert made.evaluation == EvaluationConfig(episodes=5, env=EnvConfig(id="CartPole-v0"), actions="sampled")
    assert made.resources.cpus == 2.0
    assert made.expect is not None
    assert (made.expect.metrics, made.expect.within_env_steps) == ({"episode_return_mean": 450.0}, 100_000)


@pytest.mark.parametrize(("seeds", "expected"), [(3, (0, 1, 2)), (2.0, (0, 1)), ([7, 5], (7, 5)), ((4,), (4,))])
def test_seeds_may_be_given_as_a_number_or_a_list(seeds: Any, expected: tuple[int, ...]) -> None:
    assert experiment(seeds=seeds).seeds == expected
    assert RunSettings.parse({"stop": {"env_steps": 1}, "seeds": seeds}).seeds == expected


def test_a_config_whose_lines_are_all_commented_out_is_the_default_config() -> None:
    assert experiment(config=None).config == PPOConfig()


def test_the_number_of_trials_is_samples_times_grid_points_times_seeds() -> None:
    made = experiment(
        seeds=[5, 6],
        num_samples=2,
        config={"lr": {"grid_search": [1e-3, 3e-4]}, "gamma": {"choice": [0.9, 0.99]}, "num_workers": 2},
    )
    trials = made.trials()
    assert len(trials) == 8
    assert [trial.index for trial in trials] == list(range(8))
    assert [trial.seed for trial in trials] == [5, 6] * 4
    assert [trial.config.lr for trial in trials] == [1e-3, 1e-3, 3e-4, 3e-4] * 2
    assert trials[0].config.gamma == trials[1].config.gamma  # all seeds of a sample share its draws
    assert trials[0].params == {"lr": 1e-3, "gamma": trials[0].config.gamma}
    assert all(trial.config.num_workers == 2 for trial in trials)


def sharing(made: Experiment) -> list[int]:
    return [trial.trials_sharing_update for trial in made.trials()]


def test_trials_that_differ_only_in_seeds_and_scheduled_settings_share_an_update() -> None:
    config = {"lr": {"grid_search": [1e-3, 1e-4]}, "entropy_coeff": {"uniform": [0.0, 0.1]}}
    assert sharing(experiment()) == [1]
    assert sharing(experiment(config=config, seeds=3)) == [6] * 6
    config["vf_loss_coeff"] = {"grid_search": [0.5, 1.0]}
    assert sharing(experiment(config=config, seeds=3)) == [6] * 12
    assert sharing(experiment(env={"grid_search": ["CartPole-v0", "CartPole-v1"]}, seeds=2)) == [2] * 4
    assert experiment(config=config, seeds=3).first_trial().trials_sharing_update == 6


def test_trials_of_a_searcher_share_an_update_if_they_vary_only_scheduled_settings() -> None:
    searcher = {"optuna": {"metric": "episode_return_mean", "mode": "max"}}
    lr = {"lr": {"loguniform": [1e-4, 1e-2]}}
    scheduled = experiment(config=lr, searcher=searcher, num_samples=5, seeds=2)
    others = experiment(config={**lr, "gamma": {"uniform": [0.9, 0.99]}}, searcher=searcher, num_samples=5, seeds=2)
    assert [each.first_trial().trials_sharing_update for each in (scheduled, others)] == [10, 2]


def test_a_lone_trial_is_named_after_its_seed() -> None:
    (trial,) = experiment().trials()
    assert (trial.name, trial.experiment, trial.params) == ("000-seed=0", "try", {})


def test_envs_and_their_arguments_can_vary_between_trials() -> None:
    made = experiment(
        env={"id": "CartPole-v1", "kwargs": {"sutton_barto_reward": {"grid_search": [True, False]}}},
        evaluation={"every": 5},
    )
    assert [trial.env.kwargs for trial in made.trials()] == [
        {"sutton_barto_reward": True},
        {"sutton_barto_reward": False},
    ]
    assert [trial.name for trial in made.trials()] == [
        "000-sutton_barto_reward=true-seed=0",
        "001-sutton_barto_reward=false-seed=0",
    ]
    both = experiment(env={"grid_search": ["CartPole-v1", {"id": "Pendulum-v1", "kwargs": {"g": 9.81}}]})
    assert [trial.env.id for trial in both.trials()] == ["CartPole-v1", "Pendulum-v1"]
    assert [trial.name for trial in both.trials()] == ["000-env=CartPole-v1-seed=0", "001-env=Pendulum-v1-seed=0"]


def test_floats_drawn_for_integer_settings_become_ints() -> None:
    made = experiment(config={"minibatch_size": {"quniform": [32, 256, 32]}}, num_samples=5)
    sizes = [trial.config.to_data()["minibatch_size"] for trial in made.trials()]
    assert all(isinstance(size, int) and size % 32 == 0 for size in sizes)


def test_equal_entries_give_the_same_trials() -> None:
    entry = {"config": {"lr": {"loguniform": [1e-5, 1e-2]}}, "num_samples": 3}
    assert experiment(**entry).trials() == experiment(**entry).trials()
    assert experiment(**entry, seeds=[1]).trials()[0].config != experiment(**entry).trials()[0].config


def test_a_trial_spec_is_unchanged_by_a_round_trip_through_json() -> None:
    made = experiment(
        config={"lr": {"loguniform": [1e-5, 1e-2]}, "model": {"hiddens": {"grid_search": [[64, 64], []]}}},
        evaluation={"env": "CartPole-v0"},
        expect={"episode_return_mean": 450},
    )
    for trial in made.trials():
        back = TrialSpec.from_data(json.loads(json.dumps(trial.to_data())))
        assert back == trial
        assert type(back.config) is PPOConfig


def test_an_experiment_is_unchanged_by_a_round_trip_through_its_data() -> None:
    made = experiment(config={"lr": {"uniform": [0, 1e-2]}}, seeds=2, num_samples=2, expect={"episode_return_mean": 1})
    data = json.loads(json.dumps(made.to_data()))
    assert data["config"] == {"lr": {"uniform": [0, 1e-2]}}
    (back,) = parse_experiments({"try": data})
    assert back.trials() == made.trials()


def test_the_data_of_an_expect_section_has_the_parsed_targets_and_null_for_the_rest() -> None:
    expect = ExpectConfig.parse({"episode_return_mean": 450, "info/success": 0.9})
    unsaid = {
        "within_env_steps": None,
        "within_sgd_steps": None,
        "within_seconds": None,
        "seeds": None,
        "passes": None,
        "last_evaluations": None,
        "regression_floor": None,
    }
    assert expect.to_data() == {**unsaid, "episode_return_mean": 450.0, "info/success": 0.9}


@pytest.mark.parametrize(
    "metric",
    ["iteration", "episode_return_mean", "learner/kl", "learner/lr", "info/success", "time/learn_s", "time_total_s"],
)
def test_any_reported_metric_can_be_a_stop_condition(metric: str) -> None:
    assert experiment(stop={metric: 1}).stop.bounds == {metric: 1.0}


def test_evaluation_metrics_can_be_stop_conditions_only_with_an_evaluation(wording) -> None:
    assert experiment(stop={"evaluation/episode_return_mean": 475}, evaluation={"every": 5})
    with wording.raised(SpecError):
        experiment(stop={"evaluation/episode_return_mean": 475})


def test_rules_across_settings_are_checked_for_every_combination_of_a_sweep(wording) -> None:
    choices = {"minibatch_size": {"grid_search": [64, 512]}, "train_batch_size": {"grid_search": [2048, 256]}}
    with wording.raised(SpecError, "try.config", "minibatch_size", "003"):
        experiment(config=choices)


def test_parameters_have_the_shortest_names_that_are_unique() -> None:
    locations = [("config", "x"), ("env", "kwargs", "x"), ("config", "lr", 1, 1), ("config", "y")]
    assert list(short_names(locations).values()) == ["config.x", "kwargs.x", "lr.1.1", "y"]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1e-4, "0.0001"),
        (2.5e-7, "2.5e-07"),
        (3, "3"),
        (None, "null"),
        (True, "true"),
        ("a b/../c", "a-b-..-c"),
        ("", "empty"),
        ([64, [1, 2]], "64x1x2"),
        ({"id": "ALE/Pong-v5", "kwargs": {}}, "ALE-Pong-v5"),
        ({"a": 1, "b": [2]}, "a-1-b-2"),
    ],
)
def test_values_in_trial_names_are_written_as_plain_text(value: Any, text: str) -> None:
    assert trial_name(3, 10, {"x": value}, 7) == f"003-x={text}-seed=7"


def test_trial_names_are_short_enough_for_any_file_system_and_sort_by_number() -> None:
    name = trial_name(12, 10_000, {f"parameter_{i}": i for i in range(100)}, 0)
    assert len(name) < 120
    assert name.startswith("0012-parameter_0=0-")
    assert name.endswith("-seed=0")
