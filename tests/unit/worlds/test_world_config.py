"""Which settings name a world."""

from __future__ import annotations

import pytest

from rlrun.errors import SpecError
from rlrun.worlds.world_config import WorldConfig


@pytest.mark.parametrize("data", [{}, {"world": "a:b", "pettingzoo": "c"}])
def test_a_world_is_named_by_exactly_one_of_two_settings(data: dict[str, str]) -> None:
    with pytest.raises(SpecError, match="say which world, by one of the two"):
        WorldConfig.parse(data)


@pytest.mark.parametrize("data", [{"world": "my_lab:make"}, {"pettingzoo": "mpe2.simple_v3"}])
def test_messages_call_a_world_by_what_names_it(data: dict[str, str]) -> None:
    assert [WorldConfig.parse(data).id] == list(data.values())


def test_evaluation_kwargs_stand_on_top_of_kwargs() -> None:
    config = WorldConfig(world="a:b", kwargs={"n": 1, "m": 2}, evaluation_kwargs={"n": 3})
    assert config.in_evaluation().kwargs == {"n": 3, "m": 2}


def test_a_config_survives_the_way_through_plain_data() -> None:
    config = WorldConfig(pettingzoo="mpe2.simple_v3", wrappers=("a:B",), clock="per_agent", max_episode_steps=3)
    assert WorldConfig.parse(config.to_data()) == config
