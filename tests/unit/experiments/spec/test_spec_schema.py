import json
from functools import cache
from typing import Any

import jsonschema
import pytest
import yaml
from hypothesis import event, given
from hypothesis import strategies as st

from rlrun.algorithms.ppo import PPOConfig
from rlrun.engine.messages.errors import SpecError
from rlrun.experiments.spec.experiment import RunSettings
from rlrun.experiments.spec.load import shipped_configs
from rlrun.experiments.spec.schema import json_schema
from rlrun.experiments.spec.yaml_source import read_document

LR = {"lr": {"loguniform": [1e-5, 1e-2]}}


@cache
def validator() -> jsonschema.Draft202012Validator:
    return jsonschema.Draft202012Validator(json_schema())


def is_valid(**changes: Any) -> bool:
    entry = {"algorithm": "ppo", "env": "CartPole-v1", "stop": {"env_steps": 1e5}, **changes}
    return bool(validator().is_valid({"try": entry}))


def test_the_schema_is_a_valid_json_schema() -> None:
    schema = validator().schema
    definitions = schema["$defs"].values()
    settings = [setting for each in definitions for setting in each.get("properties", {}).values()]
    once = {json.dumps(setting): setting for setting in settings}  # most algorithms share most settings
    bare = {name: {**each, "properties": {}} for name, each in schema["$defs"].items()}
    jsonschema.Draft202012Validator.check_schema({**schema, "$defs": bare, "properties": once})


@pytest.mark.parametrize("path", shipped_configs(), ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_shipped_configs_are_valid_whether_1_000_is_read_as_an_int_or_a_string(path: Any) -> None:
    validator().validate(read_document(path).data)
    text = path.read_text()
    assert "_" in text
    validator().validate(yaml.safe_load(text.replace("100_000", "'100_000'")))


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"config": None},
        {"config": {"lr": {"grid_search": [1e-3, [[0, 1e-3], [100, 0]]]}, "num_epochs": {"randint": [1, 10]}}},
        {"config": {"model": {"hiddens": {"choice": [[64], [32, 32]]}, "activation": "relu"}}},
        {"env": {"id": "CartPole-v1", "kwargs": {"x": {"uniform": [0, 1]}}, "wrappers": ["NormalizeReward"]}},
        {"env": {"grid_search": ["CartPole-v1", "Pendulum-v1"]}},
        {"seeds": 3},
        {"seeds": [1, 2]},
        {"algorithm": "my_lab.awr:AWR", "config": {"beta": 1}},
        {"expect": {"episode_return_mean": 450, "within_env_steps": "150_000"}},
        {"checkpoint": {"every": None}, "evaluation": {"env": "CartPole-v0"}},
        {"expect": {"episode_return_mean": 450, "within_seconds": 60, "seeds": 3, "passes": 2}},
        {"scheduler": None, "searcher": None, "storage": None},
        {"scheduler": "asha", "searcher": "optuna"},
        {"scheduler": {"asha": None}, "searcher": {"random": {}}},
        {"scheduler": {"median": {"time_attr": "time_total_s", "grace_period": "1_000"}}},
        {"scheduler": {"pbt": {"interval_env_steps": "20_000", "mutations": {"lr": {"loguniform": [1e-5, 1e-2]}}}}},
        {"scheduler": {"pb2": {"interval_env_steps": 2e4, "bounds": {"lr": [1e-5, 1e-2]}, "log_scale": ["lr"]}}},
        {"failure": {"max_restarts": 3}, "storage": "s3://bucket/runs"},
        {"loggers": "wandb"},
        {"env": {"pettingzoo": "mpe2.simple_spread_v3", "kwargs": {"N": {"grid_search": [2, 3]}}}},
        {"evaluation": {"env": {"world": "my_lab.worlds:Tag"}}},
        {"env": {"openenv": {"url": {"choice": ["ws://a", "ws://b"]}, "spaces": {}}, "max_episode_steps": 9}},
        {"loggers": ["mlflow", {"wandb": {"project": "walkers"}}]},
        {"loggers": {"mlflow": {}}},
        {"loggers": ["wandb", "my_lab.json_lines:JsonLines", {"my_lab.json_lines:JsonLines": {"path": "a"}}]},
    ],
)
def test_specs_that_rlrun_accepts_are_valid_under_the_schema(changes: dict[str, Any]) -> None:
    assert is_valid(**changes)


@pytest.mark.parametrize(
    "changes",
    [
        {"algorithm": "pppo"},
        {"stop": None},
        {"sed": 3},
        {"seeds": 0},
        {"config": {"lrr": 1e-3}},
        {"config": {"lr": -1}},
        {"config": {"lr": "fast"}},
        {"config": {"lr": {"grid_serch": [1]}}},
        {"config": {"lr": {"uniform": [0, 1, 2]}}},
        {"config": {"num_epochs": {"randint": [0.5, 2]}}},
        {"config": {"model": {"activation": "rellu"}}},
        {"checkpoint": {"kep": 1}},
        {"num_samples": {"choice": [1, 2]}},
        {"env": {"openenv": {"url": "ws://a", "spaces": {}, "timeout": 1}}},
        {"env": {"openenv": {"url": "ws://a", "spaces": {}}, "id": "CartPole-v1"}},
        {"scheduler": "ahsa"},
        {"scheduler": "pbt"},  # lacks required settings
        {"scheduler": {}},
        {"scheduler": {"asha": {}, "median": {}}},
        {"scheduler": {"asha": {"graceperiod": 1}}},
        {"scheduler": {"asha": {"mode": "maximum"}}},
        {"scheduler": {"asha": {"grace_period": {"uniform": [1, 2]}}}},
        {"scheduler": {"asha": {"reduction_factor": 1}}},
        {"scheduler": {"pbt": {"interval_env_steps": 2e4}}},
        {"scheduler": {"pbt": {"interval_env_steps": 2e4, "mutations": {}}}},
        {"scheduler": {"pbt": {"interval_env_steps": 2e4, "mutations": {"lr": [1e-5, 1e-2]}}}},
        {"scheduler": {"pbt": {"interval_env_steps": 2e4, "mutations": {"lr": {"grid_search": [1]}}}}},
        {"scheduler": {"pbt": {"interval_env_steps": 2e4, "mutations": LR, "quantile_fraction": 0.6}}},
        {"scheduler": {"pb2": {"interval_env_steps": 2e4, "bounds": {"lr": [1e-5]}}}},
        {"scheduler": {"pb2": {"interval_env_steps": 2e4, "bounds": {"lr": {"uniform": [0, 1]}}}}},
        {"searcher": "optna"},
        {"searcher": {"random": {"metric": "x"}}},
        {"failure": {"max_restarts": -1}},
        {"loggers": ["wandv"]},
        {"loggers": {"wandv": {}}},
        {"expect": {"episode_return_mean": 450, "seeds": 0}},
    ],
)
def test_mistakes_that_an_editor_should_underline_are_invalid_under_the_schema(changes: dict[str, Any]) -> None:
    assert not is_valid(**changes)


def settings(**known: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Some of the settings, each with a valid value or, now and then, with an invalid one."""
    return st.fixed_dictionaries({}, optional={name: mostly(value) for name, value in known.items()})


def mostly(value: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.integers(0, 7).flatmap(lambda chance: JUNK if chance == 7 else value)


JUNK = st.sampled_from([None, True, 0, -1, 0.5, 1e5, "x", [], {}, [1, 2], {"uniform": [0, 1]}])
METRIC = {"metric": st.sampled_from(["episode_return_mean", "info/x"]), "mode": st.sampled_from(["max", "min", "high"])}
TIMES = {
    **METRIC,
    "time_attr": st.sampled_from(["env_steps", "iteration", "steps"]),
    "grace_period": st.sampled_from([None, 1000, 0.5]),
}
HALVING = {**TIMES, "max_t": st.sampled_from([None, 5e4, 1]), "reduction_factor": st.sampled_from([2, 1.5, 1])}
POPULATION = {
    **METRIC,
    "interval_env_steps": st.sampled_from([1e4, 2048, 2.5]),
    "quantile_fraction": st.sampled_from([0.25, 0.5, 0.6]),
    "synchronous": st.booleans(),
}
SPACE = st.sampled_from([{"uniform": [0, 1]}, {"choice": [1, "a"]}, {"randint": [1, 9]}, {"grid_search": [1]}])
MUTATIONS = st.dictionaries(st.sampled_from(["lr", "model.activation"]), SPACE | JUNK, max_size=2)
BOUNDS = st.dictionaries(st.sampled_from(["lr", "gamma"]), st.sampled_from([[0, 1], [1e-5, 0.1], [1, 0]]), max_size=2)
SCHEDULER = {
    "asha": settings(**HALVING, brackets=st.sampled_from([1, 2])),
    "hyperband": settings(**HALVING),
    "bohb": settings(**HALVING),
    "median": settings(**TIMES, min_samples_required=st.sampled_from([1, 5])),
    "pbt": settings(
        **POPULATION,
        mutations=MUTATIONS,
        resample_probability=st.sampled_from([0, 0.5, 2]),
        perturbation_factors=st.sampled_from([[0.5, 2], [1, 1.2], [0, 1]]),
    ),
    "pb2": settings(**POPULATION, bounds=BOUNDS, log_scale=st.sampled_from([["lr"], []])),
}
MODEL = settings(**METRIC, max_concurrent=st.sampled_from([2, None]), startup_trials=st.sampled_from([5, 10]))
SEARCHER = {"optuna": MODEL, "bohb": MODEL, "random": settings()}
LOGGERS = {"wandb": settings(project=st.just("x"), tags=st.just(["a"])), "mlflow": settings(experiment=st.just("x"))}


def one_of(choices: dict[str, st.SearchStrategy[Any]]) -> st.SearchStrategy[Any]:
    """One of several by name, alone or with settings, and rarely two."""
    names = st.sampled_from(list(choices))
    mappings = [st.fixed_dictionaries({name: value}) for name, value in choices.items()]
    return names | st.one_of(mappings) | settings(**choices)


SETTINGS = {
    "scheduler": one_of(SCHEDULER),
    "searcher": one_of(SEARCHER),
    "failure": settings(max_restarts=st.sampled_from([0, 3])),
    "storage": st.sampled_from(["runs", "s3://a/b"]),
    "loggers": one_of(LOGGERS) | st.lists(one_of(LOGGERS), max_size=2),
    "expect": settings(
        episode_return_mean=st.just(450),
        within_env_steps=st.just(1e5),
        within_seconds=st.just(60),
        seeds=st.just(3),
        passes=st.sampled_from([2, 3]),
    ),
}


@pytest.mark.parametrize("key", SETTINGS)
@given(data=st.data())
def test_random_settings_that_rlrun_accepts_are_valid_under_the_schema(key: str, data: st.DataObject) -> None:
    changes = {key: data.draw(mostly(SETTINGS[key]))}
    try:
        RunSettings.parse({"stop": {"env_steps": 1e5}, **changes})
    except SpecError:
        event("refused")
        return
    event("taken")
    assert is_valid(**changes)


def test_an_entry_without_an_algorithm_env_or_stop_is_invalid_under_the_schema() -> None:
    for key in ("algorithm", "env", "stop"):
        entry = {"algorithm": "ppo", "env": "CartPole-v1", "stop": {"env_steps": 1}}
        del entry[key]
        assert not validator().is_valid({"try": entry})


def test_an_entry_that_learns_from_data_is_valid_without_an_env_under_the_schema() -> None:
    entry = {"algorithm": "bc", "stop": {"sgd_steps": 9}, "config": {"input": [{"path": "tank", "share": 1}]}}
    assert validator().is_valid({"try": entry})
    assert not validator().is_valid({"try": {**entry, "config": {"lr": 1e-3}}})


def test_descriptions_in_the_schema_are_the_docstrings_of_the_settings() -> None:
    properties = json_schema()["$defs"]["PPOConfig"]["properties"]
    assert set(properties) == set(PPOConfig.model_fields)
    assert properties["gamma"]["description"] == PPOConfig.model_fields["gamma"].description
    assert all(field["description"] for field in properties.values() if "$ref" not in field["anyOf"][0])


@pytest.mark.parametrize(
    ("changes", "valid"),
    [
        ({}, True),
        ({"mapping": "my_lab.roles:of", "train": ["a"], "config": {"num_workers": 2}}, True),
        ({"policies": {"a": {"algorithm": "dqn", "config": {"lr": {"loguniform": [1e-5, 1e-2]}}}}}, True),
        ({"algorithm": "ppo"}, False),
        ({"config": {"lr": 1e-3}}, False),
        ({"policies": {"a": {"algorithm": "dqn", "config": {"clip_param": 0.1}}}}, False),
        ({"policies": {"a": {"config": {}}}}, False),
        ({"policies": {"a": {"algorithm": "dqn", "slot": 2}}}, False),
        ({"seats": {"s": {"plays_against": "a", "self_play_share": {"uniform": [0, 1]}}}}, True),
        ({"seats": {"s": {"plays_against": "a", "scripted": {"x:Y": 0.5}}}, "league": {"pool": "1_0"}}, True),
        ({"seats": {"s": {"self_play_share": 0.5}}}, False),
        ({"seats": {"s": {"plays_against": "a", "matchmaking": "best"}}}, False),
        ({"league": {"pool": 3}}, False),
    ],
)
def test_only_correct_policies_are_valid_under_the_schema(changes: dict[str, Any], valid: bool) -> None:
    policies = {"a": {"algorithm": "ppo", "slots": 2}}
    entry = {"env": {"world": "my_lab.worlds:Tag"}, "policies": policies, "stop": {"x": 1}}
    assert validator().is_valid({"try": {**entry, **changes}}) is valid
