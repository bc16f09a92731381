"""Which parts of a user's code are shipped to a cluster."""

import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
from ray._private.runtime_env.packaging import create_package

from rlrun.engine.messages.errors import UsageError
from rlrun.experiments.cluster import shipping
from rlrun.experiments.cluster.shipping import code_environment, user_modules
from rlrun.experiments.spec.experiment import Experiment
from rlrun.experiments.spec.load import parse_experiments

ROOM = """
from rlrun.toys.known_optimum import ConstantReward
import numpy, shipped_tools.walls

class Room(ConstantReward):
    def step(self, action):
        from shipped_late import something
        return super().step(action)
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "code"
    files = {
        "shipped_room.py": ROOM,
        "shipped_late.py": "import shipped_room\nsomething = 1\n",
        "shipped_tools/__init__.py": "",
        "shipped_tools/walls.py": "from . import maps\nfrom shipped_elsewhere import floor\n",
        "shipped_tools/maps/__init__.py": "",
        "shipped_tools/maps/first.txt": "####",
        "shipped_tools/.cache/large": "",
        "shipped_tools/__pycache__/walls.pyc": "",
        "unused.py": "",
        "unused_package/__init__.py": "",
        "broken_python2.py": "print 'hello'",
    }
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    other = tmp_path / "other"
    other.mkdir()
    (other / "shipped_elsewhere.py").write_text("floor = 0\n")
    monkeypatch.syspath_prepend(folder)
    monkeypatch.syspath_prepend(other)
    yield folder
    for name in [name for name in sys.modules if name.startswith("shipped_")]:
        del sys.modules[name]


def experiment(**entry: Any) -> Experiment:
    data = {"algorithm": "ppo", "env": "CartPole-v1", "stop": {"iteration": 1}, **entry}
    (found,) = parse_experiments({"e": data})
    return found


def test_modules_named_in_a_spec_are_shipped_with_their_imports(folder: Path, tmp_path: Path) -> None:
    found = user_modules([experiment(), experiment(env="shipped_room:Room")])
    assert found == {
        "shipped_room": folder / "shipped_room.py",
        "shipped_late": folder / "shipped_late.py",
        "shipped_tools": folder / "shipped_tools",
        "shipped_elsewhere": tmp_path / "other/shipped_elsewhere.py",
    }
    code = code_environment([experiment(env="shipped_room:Room")])
    assert sorted(code["py_modules"]) == sorted(str(path) for path in found.values())


def test_ray_packs_everything_in_a_package_except_caches_and_hidden_files(folder: Path, tmp_path: Path) -> None:
    (folder / "shipped_tools/.gitignore").write_text("maps\n")  # not in git, but needed
    packed = tmp_path / "packed.zip"
    excludes = code_environment([experiment(env="shipped_room:Room")])["excludes"]
    create_package(
        str(folder / "shipped_tools"), packed, include_gitignore=False, include_parent_dir=True, excludes=excludes
    )
    assert sorted(zipfile.ZipFile(packed).namelist()) == [
        "shipped_tools/__init__.py",
        "shipped_tools/maps/__init__.py",
        "shipped_tools/maps/first.txt",
        "shipped_tools/walls.py",
    ]


def test_a_module_is_found_in_every_place_where_a_spec_may_name_it(folder: Path) -> None:
    (folder / "shipped_awr.py").write_text("from rlrun.algorithms.ppo import PPO\nclass AWR(PPO): pass\n")
    (folder / "shipped_wraps.py").write_text("from gymnasium import Wrapper\nclass Same(Wrapper): pass\n")
    env = {"id": "CartPole-v1", "wrappers": ["shipped_wraps:Same"]}
    several = {"grid_search": ["CartPole-v1", "shipped_room:Room"]}
    assert set(user_modules([experiment(algorithm="shipped_awr:AWR", env=env)])) == {"shipped_awr", "shipped_wraps"}
    assert "shipped_room" in user_modules([experiment(env={"id": several})])
    hook = "from rlrun.engine.hook import Hook\nclass Counts(Hook):\n    def on_fragment(self, fragment): pass\n"
    (folder / "shipped_hooks.py").write_text(hook)
    assert set(user_modules([experiment(hooks=["shipped_hooks:Counts"])])) == {"shipped_hooks"}


def test_installed_modules_are_not_shipped() -> None:
    assert user_modules([experiment(), experiment(env="rlrun.toys:DictCartPole")]) == {}
    assert code_environment([experiment()]) == {}


def test_a_module_with_a_syntax_error_is_shipped_and_a_missing_module_is_skipped(folder: Path) -> None:
    spec = experiment(env="shipped_room:Room")
    (folder / "shipped_late.py").write_text("import broken_python2, no_such_module_anywhere")
    found = user_modules([spec])
    assert {"shipped_late", "broken_python2"} <= set(found)
    (folder / "shipped_late.py").unlink()
    assert "shipped_late" not in user_modules([spec])


def test_modules_larger_than_the_limit_are_refused_with_their_folder(
    folder: Path, monkeypatch: pytest.MonkeyPatch, wording
) -> None:
    monkeypatch.setattr(shipping, "MAX_BYTES", 3)
    with wording.raised(UsageError, folder):
        code_environment([experiment(env="shipped_room:Room")])
