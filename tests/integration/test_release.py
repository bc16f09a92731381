"""What a release contains, and that it works without a checkout."""

from __future__ import annotations

import importlib.metadata
import os
import re
import tarfile
import zipfile
from pathlib import Path

import pytest

from rlrun.experiments.spec.load import shipped_configs
from rlrun.report.verification import code_files
from scripts.docs_site.page import FENCED
from scripts.docs_site.places import LINK
from scripts.release_check import ROOT, build, demand_tag, install, run_commands
from tests.files import files


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """An sdist, and the wheel that was built from it."""
    return build(tmp_path_factory.mktemp("dist"))


def test_sdist_and_wheel_contain_shipped_specs_documentation_examples_and_names_of_other_libraries(
    release: tuple[Path, Path],
) -> None:
    sdist, wheel = release
    expected = {f"rlrun/configs/{path.parent.name}/{path.name}" for path in shipped_configs()}
    expected |= {f"rlrun/{page.relative_to(ROOT)}" for page in (ROOT / "docs").rglob("*.md")}
    expected |= {f"rlrun/examples/{name}" for name in files(ROOT / "examples") if "__pycache__" not in name}
    expected |= {
        "rlrun/engine/messages/foreign_names.yaml",
        "rlrun/engine/kernels/kernels.c",
        "rlrun/report/assets/page.js",
    }
    assert expected <= set(zipfile.ZipFile(wheel).namelist())
    with tarfile.open(sdist) as archive:
        top = sdist.name.removesuffix(".tar.gz")
        assert expected <= {member.name.removeprefix(f"{top}/") for member in archive if member.isfile()}


OF_THE_REPOSITORY = ("README.md", "CONTRIBUTING.md", "benchmarks/", "scripts/", "tests/")
"""Links of pages to files that no distribution contains: material for contributors."""


def links(page: Path) -> set[str]:
    """Files and folders of the repository that a page links to."""
    text = "".join(FENCED.split(page.read_text())[::2])
    found = {link.partition("#")[0] for link in LINK.findall(text) if not re.match(r"\w+:|#", link)}
    return {os.path.relpath(page.parent / link, ROOT) for link in found}


def test_link_targets_of_the_shipped_pages_are_in_the_wheel(release: tuple[Path, Path]) -> None:
    held = {Path(name) for name in zipfile.ZipFile(release[1]).namelist()}
    held |= {folder for path in held for folder in path.parents}
    pages = [page for folder in ("docs", "examples") for page in (ROOT / folder).rglob("*.[mi]*")]
    linked = {link for page in pages for link in links(page) if not link.startswith(OF_THE_REPOSITORY)}
    assert {"docs/images/slots.svg", "examples/my_lab/awr.py", "configs/worlds", "rlrun/algorithms/ppo.py"} <= linked
    assert [link for link in sorted(linked) if Path("rlrun", link.removeprefix("rlrun/")) not in held] == []


def test_the_wheel_contains_the_same_code_as_the_checkout(release: tuple[Path, Path], tmp_path: Path) -> None:
    wheel = zipfile.ZipFile(release[1])
    wheel.extractall(tmp_path, [name for name in wheel.namelist() if name.endswith((".py", ".c"))])
    assert code_files(tmp_path / "rlrun") == code_files(ROOT / "rlrun")


@pytest.mark.regress  # `make release-check` runs it, too
def test_an_installed_wheel_can_train_write_reports_and_show_specs_and_docs_in_an_empty_folder(
    release: tuple[Path, Path], tmp_path: Path
) -> None:
    python = install(release[1], tmp_path / "venv", reuse=True)
    empty = tmp_path / "empty"
    empty.mkdir()
    printed = run_commands(python, empty)
    # The version names no commit, so the wheel ran and not the checkout.
    assert printed["--version"] == f"rlrun {importlib.metadata.version('rlrun')}\n"
    assert "cartpole/ppo" in printed["examples cartpole"]
    assert (empty / "lab" / "my_lab" / "awr.py").is_file()
    assert printed["docs running"].startswith("# ")
    assert (empty / "report.html").read_text().startswith("<!doctype html>")


def test_a_release_tag_must_match_the_project_version() -> None:
    version = importlib.metadata.version("rlrun")
    demand_tag(f"v{version}")
    with pytest.raises(SystemExit, match=f"it must be v{version}"):
        demand_tag("v0.0.1")
