import json
import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from rlrun.cli.main import cli
from rlrun.cli.tables import plain

ORDERS = "\x1b]0;owned\x07\x1b[8m\x9b2J\u202e\r"


def test_newlines_tabs_colors_and_unicode_are_preserved_in_printed_text(wording) -> None:
    assert plain("a\n\tb \x1b[31mred\x1b[0m é 中") == wording()


def test_undecodable_bytes_of_a_file_name_are_dropped() -> None:
    assert plain(os.fsdecode(b"run\x9b2J")) == "run2J"


def test_a_run_with_an_undecodable_name_is_listed_with_the_others(tmp_path: Path) -> None:
    for name in (b"strange\x9b2J", b"plain"):
        run = Path(os.fsdecode(os.path.join(os.fsencode(tmp_path), name)))
        run.mkdir()
        (run / "run.json").write_text("[" * 100_000)
    done = CliRunner().invoke(cli, ["runs", "--runs-dir", str(tmp_path)])
    assert done.exit_code == 0
    rows = sorted(line.split()[:2] for line in done.stdout.splitlines()[1:])
    assert rows == [["plain", "damaged"], ["strange2J", "damaged"]]
    assert done.stderr.count("run.json: cannot parse: nested too deep") == 2


@pytest.mark.parametrize("command", ["status", "show", "plot", "report", "resume", "evaluate"])
def test_commands_exit_with_code_5_and_no_traceback_for_a_run_json_nested_too_deeply(
    tmp_path: Path, command: str
) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "run.json").write_text("[" * 100_000)
    done = CliRunner().invoke(cli, [command, "deep", "--runs-dir", str(tmp_path)])
    assert "Traceback" not in done.output
    assert done.exit_code == 5


@pytest.mark.parametrize("words", [["status", "strange"], ["runs"], ["show", "strange"], ["plot", "strange"]])
def test_terminal_escape_sequences_in_the_files_of_a_run_are_not_printed(tmp_path: Path, words: list[str]) -> None:
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
