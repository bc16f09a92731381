from typing import Any

import jsonschema
import pytest
import yaml

from rlrun.algorithms.ppo import PPOConfig
from rlrun.spec.load import shipped_configs
from rlrun.spec.schema import json_schema
from rlrun.spec.yaml_source import read_document

VALIDATOR = jsonschema.Draft202012Validator(json_schema())


def is_valid(**changes: Any) -> bool:
    entry = {"algorithm": "ppo", "env": "CartPole-v1", "stop": {"env_steps": 1e5}, **changes}
    return bool(VALIDATOR.is_valid({"try": entry}))


def test_it_is_a_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(json_schema())


@pytest.mark.parametrize("path", shipped_configs(), ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_shipped_configs_are_valid_however_their_numbers_are_read(path: Any) -> None:
    VALIDATOR.validate(read_document(path).data)
    text = path.read_text()
    assert "_" in text
    VALIDATOR.validate(yaml.safe_load(text.replace("100_000", "'100_000'")))


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
    ],
)
def test_what_the_program_takes_is_valid(changes: dict[str, Any]) -> None:
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
    ],
)
def test_what_the_program_refuses_is_underlined(changes: dict[str, Any]) -> None:
    assert not is_valid(**changes)


def test_an_entry_needs_algorithm_env_and_stop() -> None:
    for key in ("algorithm", "env", "stop"):
        entry = {"algorithm": "ppo", "env": "CartPole-v1", "stop": {"env_steps": 1}}
        del entry[key]
        assert not VALIDATOR.is_valid({"try": entry})


def test_docstrings_are_the_documentation() -> None:
    properties = json_schema()["$defs"]["PPOConfig"]["properties"]
    assert set(properties) == set(PPOConfig.model_fields)
    assert properties["gamma"]["description"] == PPOConfig.model_fields["gamma"].description
    assert all(field["description"] for field in properties.values() if "$ref" not in field["anyOf"][0])
