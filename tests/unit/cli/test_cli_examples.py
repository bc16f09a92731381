"""`rlrun examples` says where more examples are, and copies them."""

from __future__ import annotations

import json
from pathlib import Path

from click.testing import CliRunner, Result

from rlrun.cli.main import cli
from tests.files import files

EXAMPLES = Path(__file__).parents[3] / "examples"


def examples(*words: str | Path) -> Result:
    return CliRunner().invoke(cli, ["examples", *map(str, words)])


def test_the_full_list_of_examples_ends_with_the_folder_that_holds_the_example_files() -> None:
    assert f"{EXAMPLES} (" in examples().stdout.splitlines()[-1]
    assert json.loads(examples("cartpole/cem", "--json").stdout)["examples"] == str(EXAMPLES)
    assert str(EXAMPLES) not in examples("cartpole/cem").stdout


def test_the_examples_are_copied_to_a_new_folder(tmp_path: Path) -> None:
    lab = tmp_path / "new" / "lab"
    assert json.loads(examples("--copy", lab, "--json").stdout)["readme"] == str(lab / "README.md")
    copied = {name: text for name, text in files(EXAMPLES).items() if "__pycache__" not in name}
    assert files(lab) == copied
    assert "my_lab/awr.py" in copied


def test_examples_are_not_copied_to_an_existing_folder(tmp_path: Path, wording) -> None:
    (tmp_path / "lab").mkdir()
    done = examples("--copy", tmp_path / "lab")
    assert done.exit_code == 2
    assert done.stderr == wording("lab")
    assert list((tmp_path / "lab").iterdir()) == []


def test_copying_only_some_examples_is_refused(tmp_path: Path, wording) -> None:
    done = examples("cartpole", "--copy", tmp_path / "lab")
    assert done.exit_code == 2
    assert wording("--copy", "cartpole") in done.stderr.splitlines()
    assert not (tmp_path / "lab").exists()
