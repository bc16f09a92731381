from pathlib import Path

import pytest

from rlrun.engine.messages.errors import SpecError
from rlrun.experiments.spec.load import load_experiments, parse_experiments
from rlrun.experiments.spec.schema import json_schema

SPEC = {"algorithm": "ppo", "env": "CartPole-v1", "stop": {"env_steps": 5000}}


def test_end_in_a_schedule_is_the_step_limit_even_if_an_override_changes_it() -> None:
    data = {"a": {**SPEC, "config": {"lr": [[0, 1e-3], ["end", 0]]}}}
    assert parse_experiments(data)[0].config.lr == ((0, 1e-3), (5000, 0.0))
    (experiment,) = parse_experiments(data, ["stop.env_steps=7_000"])
    assert experiment.config.lr == ((0, 1e-3), (7000, 0.0))
    assert experiment.trials()[0].config.lr == ((0, 1e-3), (7000, 0.0))


def test_end_may_be_used_in_a_search_space() -> None:
    data = {"a": {**SPEC, "config": {"lr": {"grid_search": [[[0, 1e-3], ["end", 0]], 1e-4]}}}}
    assert [trial.config.lr for trial in parse_experiments(data)[0].trials()] == [((0, 1e-3), (5000, 0.0)), 1e-4]


def test_end_without_a_step_limit_is_reported_with_its_location(tmp_path: Path, wording) -> None:
    file = tmp_path / "a.yaml"
    file.write_text(
        "a:\n  algorithm: ppo\n  env: CartPole-v1\n  stop: {episode_return_mean: 100}\n"
        "  config:\n    lr: [[0, 1e-3], [end, 0]]\n"
    )
    with pytest.raises(SpecError) as caught:
        load_experiments([file])
    (problem,) = caught.value.problems
    assert (problem.line, problem.column) == (6, 22)
    assert problem.message == wording("end", "stop.env_steps")


def test_a_top_level_key_that_starts_with_a_dot_may_hold_anchors_and_is_not_an_experiment(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text(
        ".common: &common {gamma: 0.9}\n"
        "a: {algorithm: ppo, env: CartPole-v1, stop: {env_steps: 10}, config: *common}\n"
        "b: {algorithm: ppo, env: CartPole-v1, stop: {env_steps: 20}, config: *common}\n"
    )
    assert [(e.name, e.config.gamma) for e in load_experiments([file])] == [("a", 0.9), ("b", 0.9)]
    file.write_text(".common: {gamma: 0.9}\n")
    with pytest.raises(SpecError, match="contains no experiment"):
        load_experiments([file])


def test_the_schema_allows_end_and_keys_that_start_with_a_dot() -> None:
    jsonschema = pytest.importorskip("jsonschema")
    entry = {**SPEC, "config": {"lr": [[0, 1e-3], ["end", 0]]}}
    schema = jsonschema.Draft202012Validator(json_schema())
    assert schema.is_valid({".common": {"x": 1}, "a": entry})
    assert not schema.is_valid({"a": {**entry, "config": {"lr": [[0, 1e-3], ["ende", 0]]}}})
