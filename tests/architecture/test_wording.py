"""The wording of messages is recorded in one file; tests themselves only check kind, location and names."""

import ast
from pathlib import Path

from scripts.house import ROOT
from tests.wording import Recordings

MOST_SENTENCES = 300


def test_every_recorded_message_is_compared_in_some_test(recordings: Recordings):
    assert recordings.orphans() == [], "no test compares these messages any more: run `make wording`"


def test_few_assertions_contain_a_literal_sentence():
    sentences = [
        f"{path.relative_to(ROOT)}:{node.lineno}: {text}"
        for path in sorted((ROOT / "tests").rglob("*.py"))
        for node, text in literal_sentences(path)
    ]
    assert len(sentences) <= MOST_SENTENCES, "compare messages with the fixture `wording`:\n" + "\n".join(sentences)


def literal_sentences(path: Path) -> list[tuple[ast.expr, str]]:
    """Returns the literals of four or more words in a file's asserts, in `match=`, and in arguments of `wording`."""
    asserted = list[ast.AST]()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Assert):
            asserted.append(node.test)
        elif isinstance(node, ast.keyword) and node.arg == "match":
            asserted.append(node.value)
        elif isinstance(node, ast.Call):
            asked = node.func.value if isinstance(node.func, ast.Attribute) else node.func
            if isinstance(asked, ast.Name) and asked.id == "wording":
                asserted += node.args
    found: dict[tuple[int, int], tuple[ast.expr, str]] = {}
    for root in asserted:
        pieces = {id(piece) for node in ast.walk(root) if isinstance(node, ast.JoinedStr) for piece in node.values}
        for node in ast.walk(root):
            if isinstance(node, ast.JoinedStr):
                text = "".join(each.value if isinstance(each, ast.Constant) else "{}" for each in node.values)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in pieces:
                text = node.value
            else:
                continue
            if len(text.split()) >= 4:
                found[node.lineno, node.col_offset] = (node, text)
    return list(found.values())
