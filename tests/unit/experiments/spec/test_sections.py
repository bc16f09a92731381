"""A section contains changes to the algorithm's own default, however it is given."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from rlrun.engine.algorithm_config import AlgorithmConfig
from rlrun.engine.settings.commented_yaml import commented_yaml
from rlrun.engine.settings.registry import algorithm_class, algorithm_names
from rlrun.experiments.spec.experiment import TrialSpec
from rlrun.experiments.spec.load import load_experiments, parse_experiments
from rlrun.experiments.spec.settings import with_settings
from rlrun.experiments.spec.yaml_source import parse_value

OTHER_NETWORKS = ("apex", "apex_ddpg", "async_dqn", "ddpg", "dqn", "gorila", "qtopt", "r2d2", "r2d3", "sac", "td3")
"""Algorithms whose default network differs from PPO's."""


def needed(algorithm: str) -> dict[str, Any]:
    """Returns the required entries of a spec for the algorithm."""
    return dict.fromkeys(algorithm_class(algorithm).Config.needed, "some.npz")


def entry(algorithm: str, config: Mapping[str, Any] | None = None, **changes: Any) -> dict[str, Any]:
    env = "CartPole-v1" if algorithm in ("apex", "async_dqn", "dqn", "gorila", "r2d2", "r2d3") else "Pendulum-v1"
    settings = {**needed(algorithm), **(config or {})}
    return {"algorithm": algorithm, "env": env, "stop": {"env_steps": 1e5}, "config": settings, **changes}


def from_file(algorithm: str, section: str, values: dict[str, Any], folder: Path) -> AlgorithmConfig:
    file = folder / "spec.yaml"
    file.write_text(yaml.safe_dump({"try": entry(algorithm, config={section: values})}))
    (experiment,) = load_experiments([file])
    return experiment.config


def from_override(algorithm: str, section: str, values: dict[str, Any], folder: Path) -> AlgorithmConfig:
    file = folder / "spec.yaml"
    file.write_text(yaml.safe_dump({"try": entry(algorithm)}))
    (experiment,) = load_experiments([file], [f"config.{section}.{key}={value}" for key, value in values.items()])
    return experiment.config


def from_override_of_the_section(algorithm: str, section: str, values: dict[str, Any], folder: Path) -> AlgorithmConfig:
    file = folder / "spec.yaml"
    file.write_text(yaml.safe_dump({"try": entry(algorithm)}))
    (experiment,) = load_experiments([file], [f"config.{section}={yaml.safe_dump(values, default_flow_style=True)}"])
    return experiment.config


def from_space_inside(algorithm: str, section: str, values: dict[str, Any], folder: Path) -> AlgorithmConfig:
    spaces = {key: {"grid_search": [value]} for key, value in values.items()}
    (experiment,) = parse_experiments({"try": entry(algorithm, config={section: spaces})})
    return experiment.trials()[0].config


def from_space_around(algorithm: str, section: str, values: dict[str, Any], folder: Path) -> AlgorithmConfig:
    space = {"grid_search": [{}, values]}
    (experiment,) = parse_experiments({"try": entry(algorithm, config={section: space})})
    default, changed = experiment.trials()
    assert default.config == algorithm_class(algorithm).Config(**needed(algorithm))
    return changed.config


def from_python(algorithm: str, section: str, values: dict[str, Any], folder: Path) -> AlgorithmConfig:
    config: AlgorithmConfig = algorithm_class(algorithm).Config(**needed(algorithm), **{section: values})
    return config


WAYS = [from_file, from_override, from_override_of_the_section, from_space_inside, from_space_around, from_python]
Way = Callable[[str, str, dict[str, Any], Path], AlgorithmConfig]


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
@pytest.mark.parametrize("algorithm", OTHER_NETWORKS)
def test_changing_the_widths_keeps_the_other_network_settings(algorithm: str, way: Way, tmp_path: Path) -> None:
    default = algorithm_class(algorithm).Config(**needed(algorithm))
    assert (default.model.activation, default.model.orthogonal_init) == ("relu", False)
    changed = way(algorithm, "model", {"hiddens": [256, 255]}, tmp_path)
    assert changed == default.replace(model=default.model.replace(hiddens=(256, 255)))


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_enabling_state_dependent_noise_keeps_the_network_widths_of_sac(way: Way, tmp_path: Path) -> None:
    changed = way("sac", "model", {"use_sde": True}, tmp_path)
    assert (changed.model.use_sde, changed.model.hiddens, changed.model.activation) == (True, (256, 256), "relu")


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
@pytest.mark.parametrize("algorithm", ["apex", "apex_ddpg"])
def test_changing_the_replay_capacity_keeps_prioritized_sampling(algorithm: str, way: Way, tmp_path: Path) -> None:
    replay = way(algorithm, "replay", {"capacity": 50_000}, tmp_path).to_data()["replay"]
    assert replay == algorithm_class(algorithm).Config().to_data()["replay"] | {"capacity": 50_000}
    assert replay["sampling"] == "prioritized"


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_changing_one_asynchrony_setting_keeps_the_others(way: Way, tmp_path: Path) -> None:
    asynchrony = way("apex", "asynchrony", {"weights_age": 7}, tmp_path).to_data()["asynchrony"]
    assert asynchrony == algorithm_class("apex").Config().to_data()["asynchrony"] | {"weights_age": 7}


def population(algorithm: str, path: str, space: dict[str, Any]) -> list[TrialSpec]:
    pbt = {"interval_env_steps": 20_000, "mutations": {path: space}}
    data = entry(algorithm, num_samples=2, scheduler={"pbt": pbt})
    (experiment,) = parse_experiments({"try": data})
    return experiment.trials()


def test_a_population_that_changes_one_setting_of_a_section_keeps_the_others() -> None:
    for trial in population("dqn", "model.activation", {"choice": ["tanh", "elu"]}):
        default = algorithm_class("dqn").Config().model
        assert trial.config.model == default.replace(activation=trial.params["activation"])
    for trial in population("apex", "replay.priority_alpha", {"uniform": [0.3, 0.9]}):
        changed = with_settings(trial, {"replay.priority_alpha": 0.45}).config.to_data()["replay"]
        assert (changed["sampling"], changed["capacity"], changed["priority_alpha"]) == ("prioritized", 2_000_000, 0.45)
        assert trial.config.to_data()["replay"]["sampling"] == "prioritized"


@pytest.mark.parametrize("algorithm", algorithm_names())
def test_the_printed_default_settings_of_an_algorithm_parse_back_to_its_defaults(algorithm: str) -> None:
    config = algorithm_class(algorithm).Config
    printed = parse_value(commented_yaml(config), "printed")
    assert config.parse(printed) == config()
    assert list(printed) == list(config.model_fields)
    if "model" in printed:  # tabular algorithms have no network
        assert list(printed["model"]) == list(type(config().model).model_fields)
