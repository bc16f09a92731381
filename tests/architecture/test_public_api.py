"""The names of `rlrun` and `rlrun.plugin`: lazy, typed, and the only ones that plugins import."""

from __future__ import annotations

import ast
import inspect
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import rlrun
import rlrun.algorithms.ppo
import rlrun.plugin
import rlrun.toys
from rlrun.engine.settings.registry import BUILT_IN, PUBLIC, algorithm_class, load_internal, public_path
from scripts.stubs import CATALOG, LAZY, STUB, catalog, stub, stub_of_names

ROOT = Path(__file__).resolve().parents[2]
PYTHON = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
ALGORITHMS = {algorithm_class(name).__name__ for name in BUILT_IN}
NAMES = {"Algorithm", "Experiment", "RlrunError", "Training", "TrialResult", "load_experiments", "resume", "run"}


def test_rlrun_exports_its_public_names_and_one_class_per_algorithm() -> None:
    assert set(dir(rlrun)) >= NAMES | ALGORITHMS
    assert len(ALGORITHMS) == len(BUILT_IN)


def test_exported_algorithm_classes_are_the_plugin_classes() -> None:
    assert rlrun.PPO is rlrun.algorithms.ppo.PPO
    found = {getattr(rlrun, algorithm_class(name).__name__).name() for name in BUILT_IN}
    assert found == set(BUILT_IN)


def test_every_public_name_exists_and_has_a_docstring() -> None:
    for name in NAMES | ALGORITHMS:
        found = getattr(rlrun, name)
        assert found.__name__ == name
        assert inspect.getdoc(found), name


def test_accessing_an_unknown_name_raises_attribute_error(wording) -> None:
    with wording.raised(AttributeError, "rlrun", "train"):
        rlrun.train  # noqa: B018 (the access is the test)


def test_importing_rlrun_imports_no_submodules() -> None:
    script = (
        "import json, sys, rlrun; print(json.dumps(sorted(name for name in sys.modules if name.startswith('rlrun'))))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == ["rlrun"]


def test_stubs_of_lazy_names_are_up_to_date() -> None:
    for path, module in LAZY.items():
        assert path.read_text() == stub_of_names(module), "run `python -m scripts.stubs`"


def test_the_package_stub_is_up_to_date_and_lists_every_algorithm_class() -> None:
    assert STUB.read_text() == stub(), "run `python -m scripts.stubs`"
    named = {node.name for node in ast.parse(STUB.read_text()).body if isinstance(node, ast.ClassDef)}
    assert named == set(rlrun._algorithms())


def test_the_algorithm_catalog_is_up_to_date() -> None:
    assert CATALOG.read_text() == catalog(), "run `python -m scripts.stubs`"


def test_package_data_includes_py_typed_and_the_stubs() -> None:
    packaged = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]["rlrun"]
    assert {"py.typed", "*.pyi", "toys/*.pyi"} <= set(packaged)


def test_plugin_names_are_listed_once_with_the_module_that_defines_them() -> None:
    for public in (rlrun.plugin, rlrun.toys):
        listed = " ".join(public._NAMES.values()).split()
        assert sorted(listed) == dir(public)
        for name, module in public._PLACES.items():
            found = getattr(public, name)
            if inspect.isclass(found) and found.__module__.startswith("rlrun."):
                assert found.__module__ == module, name
    assert set(dir(rlrun.plugin)) & set(dir(rlrun.toys)) == set()


def test_plugins_can_derive_from_every_built_in_algorithm_and_its_settings() -> None:
    for name in BUILT_IN:
        algorithm = algorithm_class(name)
        assert getattr(rlrun.plugin, algorithm.__name__) is algorithm
        # The config class of a preset is made from data, so the class that it extends is looked for.
        written = next(base for base in algorithm.Config.__mro__ if "." not in base.__qualname__)
        assert getattr(rlrun.plugin, written.__name__) is written


def test_accessing_a_non_public_plugin_name_raises_attribute_error(wording) -> None:
    with wording.raised(AttributeError, "rlrun.plugin", "LocalLearner"):
        rlrun.plugin.LocalLearner  # noqa: B018 (the access is the test)


def imports_of_rlrun(text: str) -> set[str]:
    """Modules of rlrun that Python code imports, or imports names from. The code may be a part of a file."""
    found = re.findall(r"^ *(?:import|from) ([\w.]+)", text, re.MULTILINE)
    return {module for module in found if module.partition(".")[0] == "rlrun"}


def code_of(notebook: Path) -> str:
    """Code of a notebook's cells."""
    cells = json.loads(notebook.read_text())["cells"]
    return "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")


def test_examples_guides_and_notebooks_import_public_modules_only() -> None:
    texts = {str(path): path.read_text() for path in (ROOT / "examples").rglob("*.py")}
    texts |= {str(path): code_of(path) for path in (ROOT / "docs").rglob("*.ipynb")}
    for page in (ROOT / "README.md", *(ROOT / "docs").rglob("*.md")):
        blocks = PYTHON.findall(page.read_text())
        texts |= {f"{page}, block {number}": block for number, block in enumerate(blocks)}
    others = {place: imports_of_rlrun(text) - {"rlrun", "rlrun.plugin", "rlrun.toys"} for place, text in texts.items()}
    assert {place: names for place, names in others.items() if names} == {}


def test_nothing_in_the_package_imports_the_public_modules() -> None:
    files = [path for path in (ROOT / "rlrun").rglob("*.py") if path.parent != ROOT / "rlrun"]
    assert [str(path) for path in files if imports_of_rlrun(path.read_text()) & {"rlrun", "rlrun.plugin"}] == []


NAMED = re.compile(r"\brlrun(?:\.[a-z_0-9]+)+:[A-Za-z_]\w*")


def names_in(folders: tuple[str, ...], endings: tuple[str, ...]) -> set[str]:
    """The names `rlrun...:Name` in files with the given extensions."""
    files = [path for folder in folders for path in (ROOT / folder).rglob("*") if path.suffix in endings]
    return {name for path in files for name in NAMED.findall(path.read_text())}


def test_specs_and_docs_refer_to_shipped_objects_by_their_public_names() -> None:
    named = names_in(("configs", "docs", "examples"), (".yaml", ".md", ".py", ".json"))
    named |= names_in(("rlrun/engine", "rlrun/bridges"), (".yaml",))
    assert len(named) > 60
    assert sorted(name for name in named if name.partition(":")[0] not in PUBLIC) == []


def test_every_import_path_in_the_package_specs_and_docs_exists() -> None:
    folders = ("configs", "docs", "examples", "rlrun", "benchmarks")
    named = names_in(folders, (".yaml", ".md", ".py", ".pyi", ".json", ".ipynb", ".html"))
    named |= {name for page in ROOT.glob("*.md") for name in NAMED.findall(page.read_text())}
    for name in named - {"rlrun.toys:np"}:  # an attack shown in the docstring of the function that refuses it
        load_internal(name)


def test_every_example_object_named_in_examples_and_docs_exists(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "examples"))
    pages = ("extending.md", "hooks.md", "replay.md", "running.md")
    texts = [path.read_text() for path in (ROOT / "examples").rglob("*") if path.suffix in (".py", ".yaml", ".md")]
    texts += [(ROOT / "docs" / page).read_text() for page in pages]
    named = {name for text in texts for name in re.findall(r"\bmy_lab\.\w+:\w+", text)}
    assert len(named) > 15
    for name in named - {"my_lab.gaussian:GaussianPolicy"}:  # the page leaves this policy to the reader
        load_internal(name)


def test_a_private_path_has_at_most_one_public_name() -> None:
    assert public_path("rlrun.engine.envs.partial_view:PartialView") == "rlrun.plugin:PartialView"
    assert public_path("rlrun.algorithms.actor_q.sac:SAC") == "sac"
    assert public_path("rlrun.engine.learner.learner:Learner") == ""
