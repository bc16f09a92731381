import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from rlrun.cli.main import cli
from rlrun.cli.terminal import plain

ORDERS = "\x1b]0;owned\x07\x1b[8m\x9b2J\u202e\r"


def test_newlines_tabs_and_colours_stay() -> None:
    assert plain("a\n\tb \x1b[31mred\x1b[0m é 中") == "a\n\tb \x1b[31mred\x1b[0m é 中"


@pytest.mark.parametrize("words", [["status", "strange"], ["runs"], ["show", "strange"], ["plot", "strange"]])
def test_orders_to_the_terminal_in_the_files_of_a_run_are_not_printed(tmp_path: Path, words: list[str]) -> None:
    trial = tmp_path / "strange" / "000-seed=0"
    trial.mkdir(parents=True)
    (trial.parent / "run.json").write_text(
        json.dumps({"version": 1, "experiment": f"e{ORDERS}", "trials": ["000-seed=0"], "import_paths": []})
    )
    params = {f"lr{ORDERS}": ORDERS}
    record = {"name": "000-seed=0", "status": "ERROR", "seed": 0, "params": params, "error": f"failed{ORDERS}"}
    (trial / "trial.json").write_text(json.dumps(record))
    result = CliRunner().invoke(cli, [*words, "--runs-dir", str(tmp_path)])
    assert result.output
    assert not set(result.output) & set("\x1b\x07\x9b\u202e\r")
