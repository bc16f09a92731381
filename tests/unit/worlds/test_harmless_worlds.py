"""Which worlds of a stranger's spec are known to run no code from elsewhere."""

from __future__ import annotations

from typing import Any

import pytest

from rlrun.envs.env_config import EnvConfig
from rlrun.worlds.harmless_worlds import world_demands


def test_own_worlds_and_wrappers_and_those_of_pettingzoo_ask_for_nothing() -> None:
    own = {"world": "rlrun.toys.cartpoles:CartPoles", "wrappers": ["rlrun.worlds.wrappers:AgentIndicator"]}
    assert world_demands(EnvConfig.parse(own), "env") == []
    searched = {
        "world": "rlrun.worlds.searched_env:SearchedEnv",
        "kwargs": {"env": "rlrun.toys.sparse_cartpole:SparseCartPole"},
    }
    assert world_demands(EnvConfig.parse(searched), "env") == []
    spread = {"pettingzoo": "mpe2.simple_spread_v3", "kwargs": {"N": 2}}
    assert world_demands(EnvConfig.parse(spread), "env") == []


@pytest.mark.parametrize(
    ("world", "said"),
    [
        ({"world": "my_lab.room:Room"}, "env my_lab.room:Room is none of the known worlds, so its code would be run"),
        ({"world": "rlrun.worlds.make:load_object"}, "is none of the known worlds"),
        ({"world": "rlrun.worlds.make:importlib.import_module"}, "is none of the known worlds"),
        (
            {"world": "rlrun.worlds.searched_env:SearchedEnv", "kwargs": {"env": "my_lab.room:Room"}},
            "env.kwargs.env is 'my_lab.room:Room', which may name a file or code",
        ),
        ({"pettingzoo": "my_lab.room"}, "env my_lab.room is none of the known worlds"),
        ({"pettingzoo": "mpe2.simple_spread_v3", "kwargs": {"f": "../x"}}, "env.kwargs.f is '../x', which may name"),
        (
            {"pettingzoo": "mpe2.simple_spread_v3", "wrappers": ["my_lab.room:Wrapper"]},
            "env.wrappers has my_lab.room:Wrapper, which may run code",
        ),
        (
            {"pettingzoo": "mpe2.simple_spread_v3", "tasks": "my_lab.room:task"},
            "env.tasks my_lab.room:task is code that would be run",
        ),
        (
            {"pettingzoo": "mpe2.simple_spread_v3", "tasks": [{"kwargs": {"map": "../x"}}]},
            "env.tasks[0].kwargs.map is '../x', which may name",
        ),
        (
            {"pettingzoo": "mpe2.simple_spread_v3", "curriculum": "my_lab.room:harder"},
            "env.curriculum my_lab.room:harder is code that would be run",
        ),
    ],
)
def test_what_else_a_world_asks_for_is_named(world: dict[str, Any], said: str) -> None:
    (demand,) = world_demands(EnvConfig.parse(world), "env")
    assert said in demand
