import json
import site
from pathlib import Path

import numpy
import pytest

from rlrun.engine.settings.sources import is_installed


@pytest.mark.parametrize("path", [json.__file__, Path(numpy.__file__).parent, f"{site.getusersitepackages()}/lab.py"])
def test_the_standard_library_and_site_packages_count_as_installed(path: str | Path) -> None:
    assert is_installed(path)


@pytest.mark.parametrize("path", [__file__, "<string>", "", f"{Path(json.__file__).parents[1]}-lab/x.py"])
def test_files_outside_installed_folders_count_as_the_users_even_next_to_one(path: str) -> None:
    assert not is_installed(path)


def test_a_link_to_an_installed_package_counts_as_installed(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(Path(numpy.__file__).parent)
    assert is_installed(tmp_path / "link")
    assert is_installed(tmp_path / "link/random")
