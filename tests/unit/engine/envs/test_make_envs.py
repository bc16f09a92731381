"""From ids to envs: what exists, what is missing, which backend, and the messages for the rest."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.envs.registration import EnvSpec
from gymnasium.spaces import Box, Discrete

from rlrun.engine.envs.backend import backend_of
from rlrun.engine.envs.env_config import EnvConfig
from rlrun.engine.envs.env_listing import env_names
from rlrun.engine.envs.episode_position import EpisodeSeeds
from rlrun.engine.envs.factory_call import check_call
from rlrun.engine.envs.make import check_env, make_env, make_vector_env, spaces_of
from rlrun.engine.envs.single_env import check_single_env
from rlrun.engine.envs.vector_env import EnvError
from rlrun.engine.messages.errors import EnvironmentUnusable, RlrunError, SpecError, UsageError
from rlrun.engine.settings.registry import UserCodeError

SEEDS = EpisodeSeeds(0, worker_index=3)


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Writes a user's module, and unloads it after the test."""

    def write(name: str, text: str) -> None:
        (tmp_path / f"{name}.py").write_text("import gymnasium\nfrom gymnasium.spaces import *\n" + text)
        monkeypatch.syspath_prepend(str(tmp_path))
        monkeypatch.delitem(sys.modules, name, raising=False)

    return write


def refused(config: Any, error: type[RlrunError]) -> str:
    """Returns the message, which is the same before anything is built and when it is built."""
    said = []
    for use in (check_env, lambda config: make_vector_env(config, 2, SEEDS)):
        with pytest.raises(error) as raised:
            use(EnvConfig.parse(config))
        said.append(str(raised.value))
    assert said[0] == said[1]
    return said[0]


@pytest.mark.parametrize(
    ("env_id", "said"),
    [
        ("CartPole", "unknown env 'CartPole'; did you mean 'CartPole-v1'?"),
        ("cartpole-v1", "unknown env 'cartpole-v1'; did you mean 'CartPole-v1'?"),
        ("CartPole-v7", "unknown env 'CartPole-v7'; did you mean 'CartPole-v1'?"),
        ("HalfCheeta-v5", "unknown env 'HalfCheeta-v5'; did you mean 'HalfCheetah-v5'?"),
        ("Pong-v5", "unknown env 'Pong-v5'; did you mean 'ALE/Pong-v5'?"),
        ("ALE/Pnog-v5", "unknown env 'ALE/Pnog-v5'; did you mean 'ALE/Pong-v5'?"),
        ("Heater-v0", "'? If your own package registers it on import, write package:Heater-v0"),
        ("Qwxyz-v0", "unknown env 'Qwxyz-v0'; if your own package registers it on import, write package:Qwxyz-v0"),
        ("xyzzy", "unknown env 'xyzzy'"),
        ("", "unknown env ''"),
        (
            "rlrun.toys:DictCartpole",
            "rlrun.toys has no 'DictCartpole'; did you mean 'DictCartPole'?",
        ),
        (
            "gymnasium.envs.toy_tex:TaxiEnv",
            "module named 'gymnasium.envs.toy_tex'; did you mean 'toy_text'?",
        ),
        ("nowhere_at_all:Name-v0", "the env package's module 'nowhere_at_all' cannot be imported:"),
        ("MiniGrid-Maze-5x5-v0", "write minigrid:MiniGrid-Maze-5x5-v0"),
        ("pettingzoo.mpe.simple_spread_v3", "for a multi-agent world, write env: {pettingzoo: mpe2.simple_spread_v3}"),
        ("ray.rllib.examples.MultiAgentCartPole", "did you mean 'ray.rllib.examples:MultiAgentCartPole'?"),
        ("nowhere_at_all.examples.MultiAgentCartPole", "for your own env, write package.module:factory"),
    ],
)
def test_the_error_for_an_unknown_id_suggests_the_nearest_id(env_id: str, said: str) -> None:
    assert said in refused(env_id, UsageError)


@pytest.mark.parametrize(
    ("env_id", "module", "command"),
    [
        ("LunarLander-v3", "Box2D", "pip install 'rlrun[box2d]'"),
        ("HalfCheetah-v5", "mujoco", "pip install 'rlrun[mujoco]'"),
        ("ALE/Pong-v5", "ale_py", "pip install 'rlrun[atari]'"),
        ("phys2d/CartPole-v1", "jax", "pip install 'gymnasium[jax]'"),
    ],
)
def test_the_error_for_a_missing_package_shows_the_pip_command(
    env_id: str, module: str, command: str, monkeypatch: pytest.MonkeyPatch, wording
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    assert refused(env_id, EnvironmentUnusable) == wording(env_id, module, command)
    listed = {listing.id: listing for listing in env_names()}
    if env_id in listed:
        assert (listed[env_id].usable, listed[env_id].install) == (False, command)


@pytest.mark.parametrize(
    ("env_id", "entry_point", "package", "first"),
    [
        ("FetchReach-v4", "gymnasium_robotics.envs.fetch.reach:Reach", "gymnasium_robotics-1.4.2", "3.12"),
        ("FrankaKitchen-v1", "gymnasium_robotics.envs.franka_kitchen:Kitchen", "gymnasium_robotics-1.4.2", "3.12"),
        ("HandReach-v3", "gymnasium_robotics.envs.shadow_dexterous_hand.reach:R", "gymnasium_robotics-1.4.2", "3.12"),
        ("dm_control/cartpole-balance-v0", lambda: None, "dm_control-1.0.50", "4"),
    ],
)
def test_an_env_whose_package_is_incompatible_with_this_mujoco_is_listed_as_unusable(
    env_id: str, entry_point: Any, package: str, first: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def install(what: str) -> None:
        name, _, number = what.partition("-")
        folder = tmp_path / f"{what}.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {number}\n")

    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(gymnasium.registry, env_id, EnvSpec(env_id, entry_point))
    install(package)
    install("mujoco-4.0.0")
    command = f"pip install 'mujoco<{first}'"
    said = f"env {env_id} fails inside its own package with MuJoCo 4.0.0: {command}"
    assert refused(env_id, EnvironmentUnusable) == said
    (listed,) = [listing for listing in env_names() if listing.id == env_id]
    assert (listed.usable, listed.install) == (False, command)
    (tmp_path / "mujoco-4.0.0.dist-info").rename(tmp_path / "away")
    install("mujoco-3.11.0")
    (listed,) = [listing for listing in env_names() if listing.id == env_id]
    assert listed.usable


def test_an_env_that_has_only_a_vector_entry_point_is_listed_under_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = EnvSpec("Belt-v0", vector_entry_point="my_lab.belts:Belts")
    monkeypatch.setitem(gymnasium.registry, spec.id, spec)
    (listed,) = [listing for listing in env_names() if listing.id == spec.id]
    assert listed.family == "my_lab"


def test_the_error_for_a_minigrid_env_with_an_unsupported_space_suggests_a_wrapper(wording) -> None:
    with pytest.raises(EnvironmentUnusable) as caught:
        spaces_of(EnvConfig(id="minigrid:MiniGrid-Empty-5x5-v0"))
    assert str(caught.value) == wording("env.wrappers", "minigrid.wrappers:ImgObsWrapper")


def test_the_error_for_an_atari_id_names_the_pip_extra_even_if_the_id_is_not_registered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "ale_py", None)
    monkeypatch.delitem(gymnasium.registry, "ALE/Pong-v5", raising=False)
    assert "pip install 'rlrun[atari]'" in refused("ALE/Pong-v5", EnvironmentUnusable)


def test_the_error_for_a_missing_envpool_names_the_package(monkeypatch: pytest.MonkeyPatch, wording) -> None:
    monkeypatch.setitem(sys.modules, "envpool", None)
    config = {"id": "CartPole-v1", "backend": "envpool"}
    assert refused(config, EnvironmentUnusable) == wording("EnvPool")


def test_the_error_for_an_env_removed_from_gymnasium_names_its_successor(wording) -> None:
    said = refused("HalfCheetah-v3", EnvironmentUnusable)
    assert said == wording("HalfCheetah-v3", "HalfCheetah-v5")


@pytest.mark.parametrize(
    ("config", "said"),
    [
        (
            {"id": "CartPole-v1", "kwargs": {"suton_barto_reward": True}},
            "unexpected keyword argument 'suton_barto_reward'; did you mean 'sutton_barto_reward'?",
        ),
        ({"id": "FrozenLake-v1", "kwargs": {"slippery": False}}, "did you mean 'is_slippery'?"),
        ({"id": "CartPole-v1", "wrappers": ["TimeAwareObservaton"]}, "did you mean 'TimeAwareObservation'?"),
        ({"id": "CartPole-v1", "wrappers": ["Nonsense"]}, "for your own wrapper, write package.module:Class"),
        (
            {"id": "CartPole-v1", "wrappers": [{"id": "ClipReward", "kwargs": {"min": 0}}]},
            "wrapper ClipReward: wrong keyword arguments: got an unexpected keyword argument 'min'",
        ),
        (
            {"id": "CartPole-v1", "wrappers": ["rlrun.toys:Nothing"]},
            "rlrun.toys has no 'Nothing'",
        ),
        ({"id": "Pendulum-v1", "backend": "vector"}, "env Pendulum-v1 has no native vector env"),
        (
            {"id": "rlrun.toys:ConstantReward", "backend": "vector"},
            "has no native vector env with these arguments: use backend: loop or auto",
        ),
        ({"id": "rlrun.toys:__name__"}, "must be callable, but its type is str"),
    ],
)
def test_errors_quote_wrong_names_and_arguments_and_suggest_corrections(config: Any, said: str) -> None:
    assert said in refused(config, UsageError)


def test_the_config_refuses_wrappers_with_a_native_backend(wording) -> None:
    with wording.raised(SpecError):
        EnvConfig.parse({"id": "CartPole-v1", "wrappers": ["TimeAwareObservation"], "backend": "vector"})


@pytest.mark.parametrize(
    ("config", "backend"),
    [
        ("CartPole-v1", "cartpole"),
        ({"id": "CartPole-v1", "backend": "loop"}, "loop"),
        ({"id": "CartPole-v1", "wrappers": ["TimeAwareObservation"]}, "loop"),
        ({"id": "CartPole-v1", "kwargs": {"render_mode": "rgb_array"}}, "loop"),
        ({"id": "CartPole-v1", "backend": "vector"}, "cartpole"),
        ("Pendulum-v1", "loop"),
        ("ALE/Pong-v5", "atari"),
        ({"id": "ALE/Pong-v5", "backend": "loop"}, "loop"),
        ("phys2d/CartPole-v1", "gymnasium"),
        ("rlrun.toys:DictCartPole", "loop"),
        ({"id": "CartPole-v1", "backend": "envpool"}, "envpool"),
    ],
)
def test_the_fastest_backend_that_supports_the_config_is_chosen(config: Any, backend: str) -> None:
    assert backend_of(EnvConfig.parse(config)) == backend


def test_wrappers_are_applied_from_the_inside_out(lab: Any) -> None:
    lab("lab_wrapper", "class Twice(gymnasium.RewardWrapper):\n    def reward(self, reward): return 2 * reward\n")
    config = EnvConfig.parse(
        {"id": "CartPole-v1", "wrappers": ["lab_wrapper:Twice", {"id": "ClipReward", "kwargs": {"max_reward": 1.5}}]}
    )
    env = make_vector_env(config, 2, SEEDS)
    env.reset()
    assert env.step(np.zeros(2, np.int64))[1].tolist() == [1.5, 1.5]


def test_a_factory_receives_worker_slot_and_first_seed_if_it_has_parameters_for_them(lab: Any) -> None:
    lab(
        "lab_factory",
        "made = []\n"
        "def make(size, worker_index, env_index, seed):\n"
        "    made.append((size, worker_index, env_index, seed))\n"
        "    return gymnasium.make('CartPole-v1')\n"
        "def plain(**options):\n"
        "    made.append(options)\n"
        "    return gymnasium.make('CartPole-v1')\n",
    )
    make_vector_env(EnvConfig(id="lab_factory:make", kwargs={"size": 4}), 2, SEEDS, first_episodes=[0, 6])
    make_vector_env(EnvConfig(id="lab_factory:plain", kwargs={"size": 4}), 1, SEEDS)
    made = sys.modules["lab_factory"].made
    assert made == [(4, 3, 0, SEEDS.seed(0, 0)), (4, 3, 1, SEEDS.seed(1, 6)), {"size": 4}]


def test_slots_with_different_spaces_are_refused(lab: Any, wording) -> None:
    lab(
        "lab_uneven",
        "def make(env_index): return gymnasium.make('CartPole-v1' if env_index < 2 else 'Pendulum-v1')\n",
    )
    with wording.raised(EnvironmentUnusable):
        make_vector_env(EnvConfig(id="lab_uneven:make"), 3, SEEDS)


def test_the_configs_time_limit_applies_to_an_env_made_by_a_factory() -> None:
    config = EnvConfig(id="rlrun.toys:ConstantReward", max_episode_steps=4)
    env = make_vector_env(config, 1, SEEDS)
    env.reset()
    assert [bool(env.step(np.zeros(1, np.int64))[3][0]) for _ in range(6)] == [False] * 3 + [True, False, False]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("def make(): gymnasium.make('CartPole-v1')", "returned None: is a return statement missing?"),
        ("def make(): return 3", "must return a gymnasium.Env, but it returned an object of type int"),
        ("class make(gymnasium.Env): action_space = Discrete(2)", "its observation_space is not set"),
        ("class make(gymnasium.Env): observation_space = Discrete(2)", "its action_space is not set"),
        (
            "class make(gymnasium.Env): observation_space, action_space = 5, Discrete(2)",
            "its observation_space must be a space, got int",
        ),
        (
            "class make(gymnasium.Env): observation_space, action_space = Dict(a=Tuple((Text(3),))), Discrete(2)",
            "its observation_space['a']['0'] is a Text, but rlrun supports only Box, Discrete",
        ),
        (
            "class make(gymnasium.Env): observation_space, action_space = Graph(Discrete(2), None), Discrete(2)",
            "is a Graph",
        ),
        (
            "class make(gymnasium.Env): observation_space, action_space = Discrete(2), Sequence(Discrete(2))",
            "its action_space is a Sequence",
        ),
        ("class make(gymnasium.Env): observation_space, action_space = Dict(), Discrete(2)", "contains no spaces"),
    ],
)
def test_factories_that_do_not_return_an_env_with_supported_spaces_are_refused(text: str, said: str, lab: Any) -> None:
    lab("lab_unusable", text)
    with pytest.raises(EnvironmentUnusable) as raised:
        spaces_of(EnvConfig(id="lab_unusable:make"))
    assert "env lab_unusable:make" in str(raised.value)
    assert said in str(raised.value)


@pytest.mark.parametrize(
    ("text", "doing", "last"),
    [
        ("def make(): return 1 / 0", "its factory", "ZeroDivisionError: division by zero"),
        ("def make(): return gymnasium.make('CartPole-v1', foo=1)", "its factory", "TypeError: "),
    ],
)
def test_an_error_raised_in_a_factory_is_shown_with_its_traceback(
    text: str, doing: str, last: str, lab: Any, wording
) -> None:
    lab("lab_raising", text)
    with pytest.raises(EnvError) as raised:
        make_vector_env(EnvConfig(id="lab_raising:make"), 2, SEEDS)
    first, *_ = str(raised.value).splitlines()
    assert first == wording(doing, "lab_raising:make")
    assert "lab_raising.py" in str(raised.value)
    assert last in str(raised.value)
    assert "single_env" not in str(raised.value)


def test_an_import_error_in_a_users_module_is_reported_as_an_error_in_user_code(lab: Any) -> None:
    lab("lab_broken", "import a_module_of_the_users\n")
    said = refused("lab_broken:make", UserCodeError)
    assert "No module named 'a_module_of_the_users'" in said
    gymnasium.register("lab/Broken-v0", entry_point="lab_broken:World")
    with pytest.raises(EnvError, match=r"env lab/Broken-v0 raised an exception in the import of lab_broken:World"):
        make_vector_env(EnvConfig(id="lab/Broken-v0"), 1, SEEDS)
    del gymnasium.registry["lab/Broken-v0"]


def test_an_id_prefixed_with_a_module_finds_the_env_that_the_module_registers(lab: Any, wording) -> None:
    lab(
        "lab_registering",
        "class World(gymnasium.Env):\n"
        "    observation_space = action_space = Discrete(2)\n"
        "gymnasium.register('lab/World-v3', entry_point='lab_registering:World', max_episode_steps=3)\n",
    )
    assert spaces_of(EnvConfig(id="lab_registering:lab/World-v3")) == (Discrete(2), Discrete(2))
    assert refused("lab_registering:lab/World-v2", UsageError) == wording("lab/World-v3")
    del gymnasium.registry["lab/World-v3"]


def test_a_single_env_behaves_like_one_slot_of_a_vector_env() -> None:
    config = EnvConfig.parse({"id": "MountainCar-v0", "wrappers": ["TimeAwareObservation"], "max_episode_steps": 5})
    single, vector = make_env(config, render_mode="rgb_array"), make_vector_env(config, 1, SEEDS)
    assert (single.observation_space, single.action_space) == (vector.observation_space, vector.action_space)
    assert single.reset(seed=SEEDS.seed(0, 0))[0].tolist() == vector.reset()[0].tolist()
    assert [single.step(1)[3] for _ in range(5)] == [False] * 4 + [True]
    assert np.asarray(single.render()).shape == (400, 600, 3)


def test_an_env_that_cannot_render_is_refused_with_a_message(lab: Any, wording) -> None:
    lab("lab_blind", "def make(**options): return gymnasium.make('CartPole-v1', **options)")
    with wording.raised(EnvironmentUnusable, "render_mode"):
        make_env(EnvConfig(id="rlrun.toys:ConstantReward"), render_mode="rgb_array")
    assert make_env(EnvConfig(id="lab_blind:make"), render_mode="rgb_array").render_mode == "rgb_array"


def test_an_ale_version_that_cannot_reset_single_slots_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rlrun.engine.envs.atari_backend.version", lambda _: "0.11.2")
    said = "env ALE/Pong-v5 needs ale-py 0.12, but 0.11.2 is installed: pip install 'rlrun[atari]'"
    assert refused("ALE/Pong-v5", EnvironmentUnusable) == said


@pytest.mark.parametrize(
    ("env_id", "observation_space", "action_space"),
    [
        ("FrozenLake-v1", Discrete(16), Discrete(4)),
        ("Pendulum-v1", Box(np.array([-1, -1, -8], "f"), np.array([1, 1, 8], "f")), Box(-2.0, 2.0, (1,))),
        ("ALE/Pong-v5", Box(0, 255, (4, 84, 84), np.uint8), Discrete(6)),
    ],
)
def test_the_spaces_of_an_env_are_those_of_a_single_slot(
    env_id: str, observation_space: Any, action_space: Any
) -> None:
    assert spaces_of(EnvConfig(id=env_id)) == (observation_space, action_space)


def test_env_names_are_listed_by_family_with_their_backend_and_whether_they_are_usable() -> None:
    listed = {listing.id: listing for listing in env_names()}
    assert (listed["CartPole-v1"].backend, listed["CartPole-v1"].install) == ("cartpole", "")
    assert (listed["LunarLander-v3"].backend, listed["LunarLander-v3"].usable) == ("loop", True)
    assert listed["ALE/Pong-v5"].backend == "atari"
    assert "HalfCheetah-v3" not in listed
    families = list(dict.fromkeys(listing.family for listing in listed.values()))
    assert families[:4] == ["classic_control", "box2d", "mujoco", "toy_text"]
    assert families[-1] == "atari"


def test_making_halfcheetah_neither_prints_nor_leaves_a_log(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    script = (
        "from rlrun.engine.envs.make import make_vector_env; from rlrun.engine.envs.env_config import EnvConfig\n"
        "from rlrun.engine.envs.episode_position import EpisodeSeeds\n"
        "make_vector_env(EnvConfig(id='HalfCheetah-v5'), 1, EpisodeSeeds(0, 0)).reset()\n"
        "make_vector_env(EnvConfig(id='CartPole-v0', backend='loop'), 1, EpisodeSeeds(0, 0)).reset()\n"
    )
    root = Path(__file__).parents[4]
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", script], cwd=tmp_path, env={"PYTHONPATH": str(root)}, capture_output=True
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert list(tmp_path.iterdir()) == []


def test_making_cartpole_imports_neither_torch_nor_ray_nor_packages_of_other_envs(tmp_path: Path) -> None:
    script = (
        "import sys, rlrun.engine.envs.make, rlrun.toys.known_optimum\n"
        "from rlrun.engine.envs.env_config import EnvConfig\n"
        "rlrun.engine.envs.make.spaces_of(EnvConfig(id='CartPole-v1'))\n"
        "print(sorted({'torch', 'ray', 'ale_py', 'mujoco', 'Box2D', 'pygame', 'envpool'} & set(sys.modules)))\n"
    )
    root = Path(__file__).parents[4]
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, env={"PYTHONPATH": str(root)}, capture_output=True, check=True
    )
    assert done.stdout == b"[]\n"


def test_a_wrapper_whose_package_is_missing_is_reported_as_unusable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "array_api_compat", None)  # as if it were not installed
    monkeypatch.delitem(sys.modules, "gymnasium.wrappers.array_conversion", raising=False)
    config = EnvConfig.parse({"id": "CartPole-v1", "wrappers": ["ArrayConversion"]})
    with pytest.raises(EnvironmentUnusable, match=r"wrapper ArrayConversion: .*array_api_compat"):
        check_env(config)


def test_a_wrong_keyword_argument_for_a_factory_is_found_without_building_the_env(wording) -> None:
    config = EnvConfig(id="rlrun.toys:ConstantReward", kwargs={"episode_length": 3})
    with wording.raised(UsageError, "episode_length"):
        check_single_env(config)
    check_single_env(config.replace(kwargs={"episode_len": 3}))


def test_the_error_for_an_id_whose_package_was_not_imported_suggests_the_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "strangegrid.py").write_text(
        "import gymnasium\n"
        "gymnasium.register('StrangeGrid-Empty-v0', 'gymnasium.envs.classic_control.cartpole:CartPoleEnv')\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(UsageError) as caught:
        check_env(EnvConfig(id="StrangeGrid-Empty-v0"))
    told = "unknown env 'StrangeGrid-Empty-v0', because its package has not been imported; write "
    assert str(caught.value) == f"{told}strangegrid:StrangeGrid-Empty-v0"
    check_env(EnvConfig(id="strangegrid:StrangeGrid-Empty-v0"))


@pytest.mark.parametrize("file", ["my_ant", "./my_ant.xml"])
def test_the_error_for_a_missing_model_file_names_the_file_and_where_it_was_searched_for(file: str) -> None:
    config = EnvConfig(id="Ant-v5", kwargs={"xml_file": file})
    for asked in (check_env, make_env):
        with pytest.raises(
            UsageError, match=r"^env Ant-v5: kwargs\.xml_file: File .*my_ant.* does not exist; Gymnasium"
        ):
            asked(config)


def test_the_error_for_wrong_kwargs_of_an_env_that_takes_one_dict_shows_how_to_nest_them() -> None:
    def takes_one_dict(env_config: dict[str, int]) -> None:
        del env_config

    with pytest.raises(UsageError, match=r"kwargs: \{env_config: \{floors, speed\}\}$"):
        check_call(takes_one_dict, (), {"floors": 6, "speed": 1}, "env Lift")
