"""What may stand under `env` in a spec."""

from __future__ import annotations

from typing import Any

import pytest

from rlrun.envs.env_config import EnvConfig, WrapperConfig
from rlrun.errors import SpecError


def test_a_bare_string_is_an_id() -> None:
    assert EnvConfig.parse("CartPole-v1") == EnvConfig(id="CartPole-v1")


def test_wrappers_are_strings_or_mappings() -> None:
    config = EnvConfig.parse({"id": "a:B", "wrappers": ["ClipReward", {"id": "c:D", "kwargs": {"n": [1, 2]}}]})
    assert config.wrappers == (WrapperConfig(id="ClipReward"), WrapperConfig(id="c:D", kwargs={"n": [1, 2]}))
    assert EnvConfig.parse(config.to_data()) == config


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ({"id": "x", "max_episode_steps": 0}, "env.max_episode_steps: must be a whole number > 0 or null, not 0"),
        ({"id": "x", "backend": "lop"}, "env.backend: must be 'auto' or 'vector' or 'loop' or 'envpool', not 'lop'"),
        ({"id": "x", "kwarg": {}}, "env.kwarg: unknown key 'kwarg'; did you mean 'kwargs'?"),
        ({"kwargs": {}}, "env.id: is missing"),
        ({"id": "x", "wrappers": ["a"], "backend": "envpool"}, "env: wrappers go around single environments"),
        ({"id": "x", "reset_options": {"a": 1}, "backend": "vector"}, "env: reset_options are for"),
        (
            {"id": "x", "reset_options": {"a": 1}, "backend": "envpool"},
            "env: reset_options are for",
        ),
        ({"id": "x", "wrappers": [3]}, "env.wrappers.0: must be a mapping"),
    ],
)
def test_mistakes_are_named(data: Any, said: str) -> None:
    with pytest.raises(SpecError) as raised:
        EnvConfig.parse(data, path="env")
    assert said in str(raised.value)
