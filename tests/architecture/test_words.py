"""Words that the code and the guides do without: the field has better ones, or a reader would stumble over them."""

from __future__ import annotations

import ast
import importlib.util
import io
import re
import tokenize
from collections.abc import Iterator
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


CLEAN = (
    "cli/", "regression/", "report/", "launch/", "tune/", "cluster/",
    "config.py", "registry.py", "explain.py", "metric.py", "errors.py", "signals.py", "process_end.py",
    "waiting_parent.py", "commented_yaml.py", "foreign_names.py",
    "nn/", "actors/", "rollout/", "toys/", "training/", "trust.py", "flow/", "learner/", "functional/", "runs/",
    "search/", "algorithm.py", "algorithm_config.py",
    "envs/", "worlds/", "data/", "datasets/", "replay/", "league/", "policy/",
    "spec/", "trial/", "checkpoint/", "algorithms/", "reward_streams/",
    "off_policy_evaluation/", "translation/", "__init__.py", "__main__.py",
)  # fmt: skip
"""Rooms and files whose docstrings, comments and messages are in the field's words: a room is added once it is."""

CLEAN_MODULES = [path for path in MODULES if f"{path.relative_to(REPOSITORY / 'rlrun')}".startswith(CLEAN)]

BEHIND_PLACES = (r"behind: The other group", r"behind (a|the) (proxy|firewall|load balancer)")
"""Places that a thing can be behind; for time it is "after"."""

INSTEAD = {
    r"\bbehind\b": "after",
    r"\banew\b": "again",
    r"\bbeside\b": "next to",
    r"\bstands?\b(?! for)": "is in",
    r"\b(told|tells)\b": "is passed, prints, reports",
    r"\bsays\b": "names, reports",
    r"\b(nobody|somebody)\b": "no process, another process, another user",
    r"\bso many\b": "the number of",
    r"\bgoes on\b": "continues, resumes",
    r"\bcomes to\b": "reaches, is",
}
"""Patterns of words that stumble, and what is said instead."""


def docstrings(tree: ast.Module) -> Iterator[ast.Constant]:
    """Yields all bare strings: docstrings, of attributes and constants too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.value


def texts(module: str) -> Iterator[tuple[int, str]]:
    """Yields the comments and strings of a module, docstrings among them, with their lines."""
    kinds = {tokenize.COMMENT, tokenize.STRING, getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING)}
    for token in tokenize.generate_tokens(io.StringIO(module).readline):
        if token.type in kinds:
            yield token.start[0], token.string


def test_the_first_line_of_a_docstring_is_a_concept_and_no_question() -> None:
    found = [
        f"{path.relative_to(REPOSITORY)}:{text.lineno}: {str(text.value).splitlines()[0]}"
        for path in CLEAN_MODULES
        for text in docstrings(ast.parse(path.read_text("utf-8")))
        if re.match(r"(Returns )?(what|how|who|whom|whose|where|which|why)\b|(Says|Tells)\b", str(text.value), re.I)
        and not re.match(r"Returns (which|why)\b", str(text.value))
    ]
    assert not found, "name the field's concept"


@pytest.mark.parametrize("pattern", INSTEAD)
def test_words_that_stumble_are_in_no_clean_room(pattern: str) -> None:
    """Names, placeholders, and strings of one word, such as keys of saved states, are no prose."""
    found = [
        f"{path.relative_to(REPOSITORY)}:{number}"
        for path in CLEAN_MODULES
        for number, text in texts(path.read_text("utf-8"))
        if re.search(pattern, re.sub("|".join([r"`[^`]*`|\{[^{}]*\}", r'^"\w+"$', *BEHIND_PLACES]), "", text))
    ]
    assert not found, f"say {INSTEAD[pattern]}"


def test_each_module_of_the_glossary_is_there() -> None:
    named = re.findall(r"`(rlrun(?:\.\w+)+)`", (REPOSITORY / "docs" / "glossary.md").read_text("utf-8"))
    assert len(named) > 50
    assert [name for name in named if importlib.util.find_spec(name) is None] == []
