"""Words that the code and the guides do without: the field has better ones, or a reader would stumble over them."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]

OUT = {
    r"\bput by\b|\bputs? (every|each) \w+ by\b": "stored in the replay buffer",
    r"\bas many minibatches as are due\b": "`training_intensity` minibatches per env step",
    r"\bwhat (a|the) policy remember(ed|s)\b": "recurrent state",
    r"\blearns? beside\b|\b(BesideConfig|TrainBeside)\b": "distributed or asynchronous replay",
    r"\b(LeftOnWorker|YieldToLearning|LearnTogether|AnyLearner)\b": (
        "BatchRef, LowerProcessPriority, AllReduceSGD, Learner"
    ),
    r"\b(TrainOnReplayed|TrainOneStep)\b": "TrainOnMinibatch, TrainOnBatch",
    r"\b(of_actions|best_actions|own_network|own_metrics|new_columns|take_place)\b": (
        "gather_actions, greedy_actions, load_custom_network, extra_metrics, allocate_fragment, assign_envs"
    ),
    r"\b(TrialOrders|RunCopy|DriverDisk)\b": "Exploit, RunUpload, DriverFiles",
    r"\b[Tt]ells whether\b": "Whether",
    r"\bTakes over what `": "Goes on with what `",
    r"\bwhat makes a learner where it is sent to\b": "picklable learner factory",
    r"\bare folded\b": "n-step transition",
}
"""Patterns of words that are out, and what is said instead."""

MODULES = list((REPOSITORY / "rlrun").rglob("*.py"))


@pytest.mark.parametrize("pattern", OUT)
def test_words_that_are_out_stay_out(pattern: str) -> None:
    found = [
        f"{path.relative_to(REPOSITORY)}:{number}: {line.strip()}"
        for path in [*MODULES, REPOSITORY / "README.md", *(REPOSITORY / "docs").rglob("*.md")]
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1)
        if re.search(pattern, line)
    ]
    assert not found, f"say {OUT[pattern]}"


def test_no_constructor_says_what_it_takes() -> None:
    found = [
        f"{path.relative_to(REPOSITORY)}:{node.lineno}"
        for path in MODULES
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.FunctionDef) and node.name == "__init__"
        if (ast.get_docstring(node) or "").startswith("Takes ")
    ]
    assert not found, "arguments that need words have them under `Args:` of the class"


PAGES = [*sorted((REPOSITORY / "docs").rglob("*.md")), REPOSITORY / "README.md", REPOSITORY / "CHANGELOG.md"]
LONGEST_LINE = 120


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_no_line_of_prose_is_longer_than_a_screen(page: Path) -> None:
    """Rows of tables and code are as long as they have to be."""
    is_code, long = False, []
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
        is_code ^= line.lstrip().startswith("```")
        if len(line) > LONGEST_LINE and not is_code and not line.lstrip().startswith("|"):
            long.append(number)
    assert not long
