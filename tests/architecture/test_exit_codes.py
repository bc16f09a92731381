"""The documentation lists exactly the exit codes that commands return."""

import re
from pathlib import Path

from rlrun.engine.messages.errors import ExitCode

PAGE = Path(__file__).resolve().parents[2] / "docs" / "running.md"


def test_documented_exit_codes_match_the_enum_in_number_and_name() -> None:
    _, _, section = PAGE.read_text().partition("## Exit codes")
    rows = re.findall(r"^\| (\d+) \| (.+?) \|$", section, re.MULTILINE)
    words = {code: code.name.lower().replace("_", " ") for code in ExitCode}
    documented = {int(code): re.sub(r"^(a|an) |:.*$", "", meaning) for code, meaning in rows}
    assert documented == {int(code): word for code, word in words.items()}
