"""Examples in docstrings print what they say."""

from __future__ import annotations

import doctest
from importlib import import_module
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_examples_in_docstrings_give_the_shown_results() -> None:
    files = [path for folder in ("rlrun", "scripts") for path in (ROOT / folder).rglob("*.py")]
    paths = [path.relative_to(ROOT).with_suffix("") for path in sorted(files) if ">>> " in path.read_text()]
    tried = {name: doctest.testmod(import_module(name)) for name in (".".join(path.parts) for path in paths)}
    assert {"rlrun.engine.flow.plan", "scripts.docs_site.docstrings"} <= tried.keys()
    assert [name for name, result in tried.items() if result.failed] == []
