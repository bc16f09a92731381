"""What a spec may contain under `env`."""

from __future__ import annotations

from typing import Any

import pytest

from rlrun.engine.envs.env_config import EnvConfig, WrapperConfig
from rlrun.engine.messages.errors import SpecError


def test_a_plain_string_is_read_as_the_env_id() -> None:
    assert EnvConfig.parse("CartPole-v1") == EnvConfig(id="CartPole-v1")


def test_wrappers_may_be_given_as_strings_or_mappings() -> None:
    config = EnvConfig.parse({"id": "a:B", "wrappers": ["ClipReward", {"id": "c:D", "kwargs": {"n": [1, 2]}}]})
    assert config.wrappers == (WrapperConfig(id="ClipReward"), WrapperConfig(id="c:D", kwargs={"n": [1, 2]}))
    assert EnvConfig.parse(config.to_data()) == config


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ({"id": "x", "max_episode_steps": 0}, "env.max_episode_steps: must be a whole number > 0 or null, not 0"),
        ({"id": "x", "backend": "lop"}, "env.backend: must be 'auto', 'vector', 'loop' or 'envpool', not 'lop'"),
        ({"id": "x", "kwarg": {}}, "env.kwarg: unknown key 'kwarg'; did you mean 'kwargs'?"),
        ({"kwargs": {}}, "env.id: is missing"),
        ({"id": "x", "wrappers": ["a"], "backend": "envpool"}, "env: wrappers are not supported with backend: envpool"),
        ({"id": "x", "reset_options": {"a": 1}, "backend": "vector"}, "env: reset_options are not supported with"),
        (
            {"id": "x", "reset_options": {"a": 1}, "backend": "envpool"},
            "env: reset_options are not supported with",
        ),
        ({"id": "x", "wrappers": [3]}, "env.wrappers.0: must be a mapping"),
    ],
)
def test_each_mistake_is_reported_with_the_path_of_its_setting(data: Any, said: str) -> None:
    with pytest.raises(SpecError) as raised:
        EnvConfig.parse(data, path="env")
    assert said in str(raised.value)


@pytest.mark.parametrize(("typo", "meant"), [("externl", "external"), ("wrld", "world"), ("idd", "id")])
def test_a_typo_in_the_key_that_selects_the_kind_of_env_leads_to_a_single_message(
    typo: str, meant: str, wording
) -> None:
    with pytest.raises(SpecError) as raised:
        EnvConfig.parse({typo: "CartPole-v1", "kwargs": {}}, path="env")
    assert str(raised.value) == wording(typo, meant)


@pytest.mark.parametrize("data", [{"world": None}, {"world": "a:b", "pettingzoo": "c"}])
def test_a_world_must_be_named_by_exactly_one_setting(data: dict[str, str], wording) -> None:
    with wording.raised(SpecError):
        EnvConfig.parse(data)


@pytest.mark.parametrize("data", [{"world": "my_lab:make"}, {"pettingzoo": "mpe2.simple_v3"}])
def test_the_id_of_a_multi_agent_env_is_the_value_of_its_world_or_pettingzoo_setting(data: dict[str, str]) -> None:
    config = EnvConfig.parse(data)
    assert (config.id, config.has_many_agents) == (next(iter(data.values())), True)
    assert not EnvConfig(id="CartPole-v1").has_many_agents


@pytest.mark.parametrize(
    ("data", "foreign"),
    [
        ({"world": "a:b", "id": "CartPole-v1"}, "id"),
        ({"world": "a:b", "backend": "loop"}, "backend"),
        ({"pettingzoo": "a.b", "reset_options": {}}, "reset_options"),
        ({"pettingzoo": "a.b", "preset": "atari"}, "preset"),
        ({"id": "CartPole-v1", "clock": "parallel"}, "clock"),
    ],
)
def test_a_setting_for_another_kind_of_env_is_reported_along_with_other_mistakes(
    data: dict[str, Any], foreign: str
) -> None:
    with pytest.raises(SpecError) as raised:
        EnvConfig.parse({**data, "max_replay_s": -1}, path="env")
    key, other = raised.value.problems
    assert (key.path, other.path) == (f"env.{foreign}", "env.max_replay_s")
    assert key.message.startswith(f"unknown key '{foreign}'; ")
    assert f" {foreign}," not in key.message


def test_reset_options_of_tasks_are_refused_in_multi_agent_envs(wording) -> None:
    with wording.raised(SpecError):
        EnvConfig.parse({"world": "a:b", "tasks": [{"reset_options": {"low": 1}}]})


@pytest.mark.parametrize("data", [{"id": "a"}, {"world": "a:b"}])
def test_evaluation_kwargs_override_kwargs(data: dict[str, str]) -> None:
    config = EnvConfig.parse({**data, "kwargs": {"n": 1, "m": 2}, "evaluation_kwargs": {"n": 3}})
    assert config.in_evaluation().kwargs == {"n": 3, "m": 2}


def test_configs_survive_a_round_trip_through_data_with_only_the_settings_of_their_kind() -> None:
    config = EnvConfig(pettingzoo="mpe2.simple_v3", wrappers=("a:B",), clock="per_agent", max_episode_steps=3)
    assert EnvConfig.parse(config.to_data()) == config
    assert not {"id", "preset", "backend", "reset_options"} & config.to_data().keys()
    assert not {"world", "pettingzoo", "clock"} & EnvConfig(id="a").to_data().keys()
