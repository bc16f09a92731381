"""From configs to worlds, and messages about configs that are not worlds."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest
from gymnasium.spaces import Box, Discrete

from rlrun.engine.envs.env_config import EnvConfig
from rlrun.engine.envs.episode_position import EpisodeSeeds
from rlrun.engine.envs.make import make_vector_env
from rlrun.engine.envs.spaces import Spaces
from rlrun.engine.envs.vector_env import EnvError
from rlrun.engine.messages.errors import EnvironmentUnusable, UsageError
from rlrun.engine.settings.registry import UserCodeError
from rlrun.engine.worlds.make import check_world, make_vector_world, spaces_of_policies
from rlrun.engine.worlds.make_worlds import make_world
from rlrun.engine.worlds.mapping import PolicyMapping

SEEDS = EpisodeSeeds(0, worker_index=0)
BOX = Box(-1, 1, (1,))

MODULE = """
    import gymnasium
    import numpy as np
    from gymnasium.spaces import Box, Discrete
    from rlrun.engine.envs.spaces import Spaces
    from rlrun.engine.worlds.world import World, WorldStep

    class Meadow(World):
        def __init__(self, hunters=1, prey=2, odd=False):
            self.possible_agents = [f"hunter_{i}" for i in range(hunters)] + [f"prey_{i}" for i in range(prey)]
            self.odd = odd
        def spaces(self, agent):
            if agent == "prey_1" and self.odd:
                return Spaces(Box(-1, 1, (2,)), Discrete(3))
            return Spaces(Box(-1, 1, (1,)), Discrete(2 if agent.startswith("hunter") else 3))
        def reset(self, seed):
            return {agent: np.zeros(1, np.float32) for agent in self.possible_agents}
        def step(self, actions):
            return WorldStep(self.reset(0), {}, {}, {}, {}, False)

    class Fenced(World):
        def __init__(self, world, height=1):
            self.world, self.height, self.possible_agents = world, height, world.possible_agents
        def spaces(self, agent): return self.world.spaces(agent)
        def reset(self, seed): return self.world.reset(seed)
        def step(self, actions): return self.world.step(actions)

    def alone(): return gymnasium.make("CartPole-v1")
    def nothing(): pass
    def broken(): raise RuntimeError("no grass")
    def parallel():
        from mpe2 import simple_spread_v3
        return simple_spread_v3.parallel_env()
    def no_world(world): return 3
    def swapped(agent, episode): return "a" if (agent == "prey_0") == (episode % 2 == 0) else "b"
    number = 3
"""


@pytest.fixture(autouse=True)
def _meadows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "meadows.py").write_text(textwrap.dedent(MODULE))
    (tmp_path / "lacks_package.py").write_text("import a_package_that_is_nowhere\n")
    (tmp_path / "raises.py").write_text("1 / 0\n")
    monkeypatch.syspath_prepend(tmp_path)


def test_spaces_and_slots_are_derived_from_the_possible_agents() -> None:
    config = EnvConfig(world="meadows:Meadow", kwargs={"prey": 3})
    mapping = PolicyMapping(["hunters", "prey"], {"hunter_*": "hunters", "*": "prey"})
    assert spaces_of_policies(config, mapping) == {
        "hunters": Spaces(BOX, Discrete(2)),
        "prey": Spaces(BOX, Discrete(3)),
    }
    worlds = make_vector_world(config, 2, SEEDS, mapping, {"hunters": 4})
    assert worlds.slots == {"hunters": 8, "prey": 6}
    assert worlds.reset().policies["prey"].acts.all()


def test_the_error_for_agents_of_one_policy_with_different_spaces_names_them_with_their_spaces(wording) -> None:
    config = EnvConfig(world="meadows:Meadow", kwargs={"odd": True, "hunters": 0})
    with pytest.raises(EnvironmentUnusable) as raised:
        spaces_of_policies(config, PolicyMapping(["default"]))
    assert str(raised.value) == wording("prey_0", "-1.0")
    assert str(raised.value) == wording("prey_1", "-1.0")


def test_a_policy_without_agents_is_an_error(wording) -> None:
    mapping = PolicyMapping(["prey", "birds"], {"*": "prey"})
    with wording.raised(UsageError, "prey_0", "prey_1"):
        spaces_of_policies(EnvConfig(world="meadows:Meadow", kwargs={"hunters": 0}), mapping)


def test_policies_whose_seats_change_get_slots_for_the_most_seats_they_may_have() -> None:
    config = EnvConfig(world="meadows:Meadow", kwargs={"hunters": 0, "prey": 3})
    worlds = make_vector_world(config, 1, SEEDS, PolicyMapping(["a", "b"], "meadows:swapped"), {})
    assert worlds.slots == {"a": 2, "b": 2}
    assert worlds.reset().policies["a"].acts.tolist() == [True, False]


def test_wrappers_are_applied_to_the_world() -> None:
    wrapper = {"id": "meadows:Fenced", "kwargs": {"height": 3}}
    world = make_world(EnvConfig.parse({"world": "meadows:Meadow", "wrappers": [wrapper]}))
    assert vars(world)["height"] == 3


@pytest.mark.parametrize(
    ("data", "error", "said"),
    [
        ({"world": "meadows:Medow"}, UsageError, "has no 'Medow'; did you mean 'Meadow'?"),
        ({"world": "meadows:number"}, UsageError, "must be callable, but its type is int"),
        ({"world": "Meadow-v0"}, UsageError, "' is not an import path; write it as package.module:Name"),
        ({"world": "meadows:Meadow", "kwargs": {"hunter": 3}}, UsageError, "did you mean 'hunters'?"),
        ({"world": "raises:make"}, UserCodeError, "ZeroDivisionError"),
        (
            {"world": "meadows:Meadow", "wrappers": ["Fenced"]},
            UsageError,
            "write a world wrapper as package.module:Class",
        ),
        (
            {"world": "meadows:Meadow", "wrappers": [{"id": "meadows:Fenced", "kwargs": {"heigt": 3}}]},
            UsageError,
            "did you mean 'height'?",
        ),
        ({"pettingzoo": "mpe3.simple_v3"}, EnvironmentUnusable, "needs mpe3, which is not installed: pip install 'rlr"),
        ({"pettingzoo": "mpe2.simple_spred_v3"}, UsageError, "did you mean 'simple_spread_v3'?"),
        ({"pettingzoo": "meadows"}, UsageError, "the module has neither parallel_env nor env"),
        (
            {"pettingzoo": "pettingzoo.mpe.simple_spread_v3"},
            UsageError,
            "separate package: write mpe2.simple_spread_v3",
        ),
        ({"pettingzoo": "lacks_package"}, EnvironmentUnusable, "No module named 'a_package_that_is_nowhere'"),
        (
            {"pettingzoo": "mpe2.simple_spread_v3", "kwargs": {"cycles": 3}},
            EnvError,
            "unexpected keyword argument 'cycles'",
        ),
    ],
)
def test_invalid_world_settings_are_reported_before_a_world_is_created(
    data: dict[str, object], error: type[Exception], said: str
) -> None:
    with pytest.raises(error) as raised:
        check_world(EnvConfig.parse(data)) if error is not EnvError else make_world(EnvConfig.parse(data))
    assert said in str(raised.value)


@pytest.mark.parametrize(
    ("world", "said"),
    [
        ("meadows:alone", "it returned a single-agent env of type TimeLimit: write env: meadows:alone"),
        ("meadows:nothing", "it returned None: is a return statement missing?"),
    ],
)
def test_a_factory_must_return_a_world(world: str, said: str) -> None:
    with pytest.raises(EnvironmentUnusable) as raised:
        make_world(EnvConfig(world=world))
    assert said in str(raised.value)


def test_an_exception_in_a_factory_is_reported_with_its_traceback() -> None:
    with pytest.raises(
        EnvError, match=r"(?s)env meadows:broken raised an exception in its factory.*RuntimeError: no grass"
    ):
        make_world(EnvConfig(world="meadows:broken"))


def test_a_wrapper_must_be_a_world(wording) -> None:
    with wording.raised(EnvironmentUnusable, "meadows:no_world"):
        make_world(EnvConfig.parse({"world": "meadows:Meadow", "wrappers": ["meadows:no_world"]}))


@pytest.mark.parametrize("factory", ["meadows:Meadow", "meadows:parallel"])
def test_the_refusal_of_a_world_given_as_an_env_shows_the_correct_key(factory: str, wording) -> None:
    with wording.raised(EnvironmentUnusable, factory):
        make_vector_env(EnvConfig(id=factory), 1, SEEDS)
