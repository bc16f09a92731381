"""What a release holds, and that it works without a checkout."""

from __future__ import annotations

import importlib.metadata
import tarfile
import zipfile
from pathlib import Path

import pytest

from rlrun.experiments.spec.load import shipped_configs
from scripts.release_check import ROOT, build, demand_tag, install, run_commands


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """An sdist, and the wheel that was built from it."""
    return build(tmp_path_factory.mktemp("dist"))


def test_sdist_and_wheel_hold_the_shipped_specs_the_documentation_and_names_of_other_libraries(
    release: tuple[Path, Path],
) -> None:
    sdist, wheel = release
    expected = {f"rlrun/configs/{path.parent.name}/{path.name}" for path in shipped_configs()}
    expected |= {f"rlrun/{page.relative_to(ROOT)}" for page in (ROOT / "docs").rglob("*.md")}
    expected |= {
        "rlrun/engine/messages/foreign_names.yaml",
        "rlrun/engine/kernels/kernels.c",
        "rlrun/report/assets/page.js",
    }
    assert expected <= set(zipfile.ZipFile(wheel).namelist())
    with tarfile.open(sdist) as archive:
        top = sdist.name.removesuffix(".tar.gz")
        assert expected <= {member.name.removeprefix(f"{top}/") for member in archive if member.isfile()}


@pytest.mark.regress  # so does `make release-check`
def test_an_installed_wheel_trains_reports_and_shows_specs_and_pages_in_an_empty_folder(
    release: tuple[Path, Path], tmp_path: Path
) -> None:
    python = install(release[1], tmp_path / "venv", reuse=True)
    empty = tmp_path / "empty"
    empty.mkdir()
    printed = run_commands(python, empty)
    # Without a commit, so it was not the checkout that ran.
    assert printed["--version"] == f"rlrun {importlib.metadata.version('rlrun')}\n"
    assert "cartpole/ppo" in printed["examples cartpole"]
    assert printed["docs running"].startswith("# ")
    assert (empty / "report.html").read_text().startswith("<!doctype html>")


def test_a_tag_names_the_version_of_the_project() -> None:
    version = importlib.metadata.version("rlrun")
    demand_tag(f"v{version}")
    with pytest.raises(SystemExit, match=f"it must be v{version}"):
        demand_tag("v0.0.1")
