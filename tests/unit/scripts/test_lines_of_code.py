"""Counts of an algorithm's own lines: followed imports, shared code, and the page that shows the counts."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from scripts.lines_of_code import COUNTS, PAGE, RLRUN, Library, Sources, table

FILES = {
    "lab/__init__.py": "from lab.algos.a import A\nfrom lab.algos.b import B\n",
    "lab/common.py": "import lab\n\ntraining = 1\n",
    "lab/algos/__init__.py": "from .a import A\n",
    "lab/algos/a.py": '''
        """Docstring."""
        from typing import TYPE_CHECKING
        from lab.common import training
        from lab.algos.shared import x
        if TYPE_CHECKING:
            from lab.algos.b import B

        # a comment
        WORKER = "lab.algos.worker:Worker"
        class A:
            """Text."""
            size = 1
        ''',
    "lab/algos/worker.py": "class Worker:\n    a = 1\n    b = 2\n",
    "lab/algos/b.py": "import lab.common\n\ndef f():\n    from . import shared\n\n\nclass B: ...\n",
    "lab/algos/shared.py": "x = (\n    1,\n)\n",
    "lab/algos/derived.py": "from lab.algos import A\n",
}
LAB = Library("Lab", "lab", {"a": "lab.algos.a", "b": "lab.algos.b", "derived": "lab.algos.derived"}, r"lab\.algos\.")


@pytest.fixture
def lab(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = text.splitlines()
        indent = min((len(line) - len(line.lstrip()) for line in lines if line.strip()), default=0)
        path.write_text("\n".join(line[indent:] for line in lines) + "\n")
    return tmp_path


def test_own_lines_of_an_algorithm_are_those_of_files_only_it_or_algorithms_derived_from_it_use(lab: Path) -> None:
    """`a` has 8 lines and a worker of 3, which `derived` reaches only through it; `b` shares 3 lines with both."""
    assert Sources(lab, LAB).counts() == {"a": [11, 14], "b": [4, 7], "derived": [1, 15]}


def test_in_a_library_of_single_file_algorithms_only_the_lines_of_the_algorithms_file_count(lab: Path) -> None:
    alone = Library("Lab", "lab", {"a": "lab.algos.a", "none": "lab.algos.gone"}, r"lab\.algos\.", alone=True)
    assert Sources(lab, alone).counts() == {"a": [8, 8]}


def test_the_line_count_table_has_a_row_for_each_algorithm_that_two_libraries_have(wording) -> None:
    others = {
        "sb3": {"version": "1.2", "lines": {"ppo": [5, 9], "ours": [1, 1]}},
        "cleanrl": {"version": "3", "lines": {}},
    }
    assert table({"ppo": [7, 7], "alone": [1, 2]}, others).splitlines() == wording("CleanRL", "ppo", "1.2")


def test_the_page_of_line_counts_shows_the_recorded_counts_of_other_libraries() -> None:
    expected = table({name: [0, 0] for name in RLRUN.algorithms}, yaml.safe_load(COUNTS.read_text())).splitlines()
    shown = [line for line in PAGE.read_text().splitlines() if line.startswith("| ") and "| -:" not in line]
    assert len(shown) > 30
    assert [_without_ours(line) for line in shown if line not in expected[:2]] == [
        _without_ours(line) for line in expected[2:] if any(line.split("|")[1] == own.split("|")[1] for own in shown)
    ]


def _without_ours(line: str) -> list[str]:
    name, _, *others = line.split("|")[1:]
    return [name, *others]
