"""Which envs and arguments a stranger's file may name."""

from __future__ import annotations

from typing import Any

import gymnasium
import pytest

from rlrun.envs.env_config import EnvConfig
from rlrun.envs.harmless import OWN_ENVS, WRAPPERS, env_demands, text_demands
from rlrun.registry import load_object


@pytest.mark.parametrize(
    "env",
    [
        "CartPole-v1",
        "ALE/Pong-v5",
        "HalfCheetah-v5",
        "rlrun.toys.known_optimum:DictCartPole",
        {"id": "FrozenLake-v1", "kwargs": {"map_name": "4x4", "is_slippery": False, "desc": ["SFFF", "FHFG"]}},
        {
            "id": "CartPole-v1",
            "wrappers": ["TimeAwareObservation", {"id": "FrameStackObservation", "kwargs": {"n": 4}}],
        },
        {"id": "CartPole-v1", "reset_options": {"low": -0.1, "high": 0.1}},
        "NoSuchEnv-v0",
        "Reacher-v2",
    ],
)
def test_known_envs_with_plain_arguments_ask_for_nothing(env: Any) -> None:
    assert env_demands(EnvConfig.parse(env), "env") == []


@pytest.mark.parametrize(
    ("env", "said"),
    [
        ("my_lab.room:Room", "env my_lab.room:Room is none of the known envs, so its code would be run"),
        ("my_lab:Room-v0", "env my_lab:Room-v0 is none of the known envs, so its code would be run"),
        ("os:system", "env os:system is none"),
        ("gymnasium:make", "env gymnasium:make is none"),
        ("rlrun.envs.make:make_env", "env rlrun.envs.make:make_env is none"),
        ("rlrun.toys.known_optimum:Crashing", "env rlrun.toys.known_optimum:Crashing is none"),
        ("rlrun.toys.known_optimum:gymnasium.make", "is none of the known envs"),
        (
            {"id": "CartPole-v1", "wrappers": [{"id": "RecordVideo", "kwargs": {"video_folder": "/tmp/x"}}]},
            "env.wrappers has RecordVideo, which may run code or write files",
        ),
        ({"id": "CartPole-v1", "wrappers": ["gymnasium.wrappers:TimeLimit"]}, "has gymnasium.wrappers:TimeLimit"),
        (
            {"id": "Ant-v5", "kwargs": {"xml_file": "/etc/passwd"}},
            "env.kwargs.xml_file is '/etc/passwd', which may name a file or code",
        ),
        ({"id": "CartPole-v1", "reset_options": {"maps": [1, "a.txt"]}}, "env.reset_options.maps[1] is 'a.txt'"),
    ],
)
def test_what_is_not_known_to_be_harmless_is_named_with_the_reason(env: Any, said: str) -> None:
    assert said in env_demands(EnvConfig.parse(env), "env")[0]


def test_an_id_that_a_user_has_registered_is_none_of_the_known_envs() -> None:
    gymnasium.register("Registered-v0", entry_point="my_lab.room:Room")
    try:
        assert "Registered-v0 is none of the known envs" in env_demands(EnvConfig(id="Registered-v0"), "env")[0]
    finally:
        del gymnasium.registry["Registered-v0"]


@pytest.mark.parametrize("text", ["..", "~", "a/b", "a\\b", "C:", "https://x", "x" * 41, "a\nb", "", "é"])
def test_texts_that_may_be_paths_are_told_from_plain_ones(text: str) -> None:
    assert bool(text_demands(text, "x")) == (text != "")


def test_all_that_is_listed_is_there() -> None:
    for path in OWN_ENVS:
        assert issubclass(load_object(path), gymnasium.Env)
    for name in WRAPPERS:
        assert issubclass(load_object(name) if ":" in name else vars(gymnasium.wrappers)[name], gymnasium.Wrapper)
