"""Which of the two a spec names: an env of one agent, or a world of many."""

from __future__ import annotations

import pytest

from rlrun.envs.env_config import EnvConfig
from rlrun.errors import SpecError
from rlrun.worlds.any_env import parse_env
from rlrun.worlds.world_config import WorldConfig


def test_a_world_names_itself_and_everything_else_is_an_env() -> None:
    assert parse_env({"pettingzoo": "mpe2.simple_spread_v3"}) == WorldConfig(pettingzoo="mpe2.simple_spread_v3")
    assert parse_env("CartPole-v1") == EnvConfig(id="CartPole-v1")
    with pytest.raises(SpecError, match=r"x: unknown key 'wrapper'; did you mean 'wrappers'|x\.wrapper"):
        parse_env({"world": "a:b", "wrapper": []}, path="x")
