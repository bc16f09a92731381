"""Limits on what a reader faces: cycles, complex functions, large or ambiguous classes, tables, names of modules.

The package's files are read and parsed once for all of these tests.
"""

from __future__ import annotations

import ast
import re
import tomllib
from collections import Counter

import pytest

from rlrun.engine.messages.errors import RlrunError
from rlrun.engine.policy.behavior import BehaviorPolicy
from rlrun.engine.settings.registry import PUBLIC, load_internal
from scripts.house import ROOT, House


@pytest.fixture(scope="module")
def house() -> House:
    return House(ROOT)


VAGUE_NAMES = {"util", "utils", "common", "core", "base", "misc", "helper", "helpers", "manager", "handler", "context"}
OFFERING = {"rlrun", "rlrun.toys"}
"""Packages that export names; all others contain only a docstring."""


def is_docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def test_every_module_has_a_docstring_and_package_files_contain_nothing_else(house: House) -> None:
    bodies = {name: module.tree.body for name, module in house.modules.items()}
    assert [name for name, body in bodies.items() if not body or not is_docstring(body[0])] == []
    assert [name for name in house.packages - OFFERING if len(bodies[name]) > 1] == []


def test_module_names_contain_no_vague_words(house: House) -> None:
    words = {name: set(re.split(r"[._]", name)) for name in house.modules}
    assert [name for name, own in words.items() if VAGUE_NAMES & own] == []


MOST_LINES_OF_A_TRAINING = 250


@pytest.mark.parametrize("name", ["training.Training", "running_training.RunningTraining"])
def test_the_classes_that_run_training_stay_small(house: House, name: str) -> None:
    assert house.classes[f"rlrun.engine.training.{name}"].lines <= MOST_LINES_OF_A_TRAINING


@pytest.mark.parametrize("name", ["ppo", "a2c", "impala.impala", "impala.appo"])
def test_algorithm_files_mention_neither_curiosity_nor_constraints(house: House, name: str) -> None:
    text = house.modules[f"rlrun.algorithms.{name}"].text
    assert re.findall(r"(?i)curio\w*|constraint|constrained|intrinsic|lagrang\w*", text) == []


def test_imports_are_never_circular_not_even_for_types(house: House) -> None:
    assert house.cycles() == []


MOST_COMPLEX = 20
"""Maximum complexity of a function that validates specs or runs a trial: each additional mistake gets
its own function, not another branch."""


def test_spec_checks_and_the_trial_loop_use_only_simple_functions(house: House) -> None:
    rooms = ("rlrun.experiments.spec.", "rlrun.experiments.trial.")
    found = {name: value for name, value in house.complexities().items() if name.startswith(rooms)}
    assert len(found) > 500
    assert {name: value for name, value in found.items() if value > MOST_COMPLEX} == {}


QUESTIONS = {
    "Where does a truncation bootstrap?": "bootstraps from the value of its final observation",
    "Where is the learning rate applied?": "scheduled[objective.lr]",
    "Who sends the weights?": ".for_each(BroadcastWeights(trainee))",
    "What is masked in the losses?": "masked_mean(surrogate.minimum(clipped), valid)",
    "What is clipped?": "clipped(gradient, norm, objective.max_grad_norm)",
    "Where are advantages standardised?": "class Standardize(",
    "What is the arithmetic of the optimizer?": "class Adam:",
    "Where is the old log-probability computed?": 'batch["logp"] =',
    "What seeds the minibatches?": "def order(self, generator: np.random.Generator)",
    "What does a step of acting record?": "def record(self, batch: SampleBatch, where: Any, heads: Heads",
}
"""Questions about PPO, each with the code or words that answer it in the files of PPO's page."""


def ppo_files() -> list[str]:
    section = (ROOT / "docs/algorithms/ppo.md").read_text().partition("## Files")[2].partition("\n## ")[0]
    return re.findall(r"\(\.\./\.\./(rlrun/\S+\.py)\)", section)


def test_the_ppo_page_lists_at_most_nine_short_files_that_explain_it() -> None:
    assert 0 < len(ppo_files()) <= 9
    assert sum(len((ROOT / file).read_text().splitlines()) for file in ppo_files()) <= 1_500


@pytest.mark.parametrize("question", QUESTIONS)
def test_the_files_that_explain_ppo_answer_every_listed_question(question: str) -> None:
    assert any(QUESTIONS[question] in (ROOT / file).read_text() for file in ppo_files())


MOST_LINES = 300
MOST_LINES_OF_A_BEHAVIOR = 250
MOST_METHODS_OF_A_BEHAVIOR = 18

FAMILIES = {
    "rlrun.engine.settings.config.ConfigModel",  # settings, mostly declarations
    "rlrun.engine.algorithm.Algorithm",  # algorithms, which are variants of the ones that they extend
    "rlrun.engine.policy.behavior.BehaviorPolicy",
}
"""Classes whose subclasses may be longer together with their bases."""


def test_a_class_together_with_its_bases_has_at_most_300_lines(house: House) -> None:
    classes = house.classes
    alone = {name: each for name, each in classes.items() if not (each.ancestors - {name}) & FAMILIES}
    assert {name for name, each in alone.items() if each.lines_with_bases > MOST_LINES} == set()


def test_every_class_without_its_bases_has_at_most_300_lines(house: House) -> None:
    assert {name for name, each in house.classes.items() if each.lines > MOST_LINES} == set()


def test_behavior_policy_has_few_lines_and_few_public_methods(house: House) -> None:
    assert house.classes["rlrun.engine.policy.behavior.BehaviorPolicy"].lines_with_bases <= MOST_LINES_OF_A_BEHAVIOR
    public = [name for name in vars(BehaviorPolicy) if not name.startswith("_")]
    assert len(public) <= MOST_METHODS_OF_A_BEHAVIOR


SHARED = {
    "Manifest": "the list of files in a folder, in `checkpoint/` and in `datasets/`: no module knows both",
    "UniformSampler": "draws with equal probabilities: elements of a space, or rows of a replay; no module knows both",
}
"""Names shared by several public classes, each with the reason why another word would add nothing."""


def test_public_class_names_are_unique_except_for_listed_ones(house: House) -> None:
    names = Counter(name.rpartition(".")[2] for name in house.classes)
    shared = {name for name, number in names.items() if number > 1 and not name.startswith("_")}
    assert shared == set(SHARED)


BY_NAME = {"algorithms", "bridges", "exact", "toys"}
"""Districts whose parts may be imported from above and from below."""


def test_every_import_path_named_in_the_package_can_be_imported(house: House) -> None:
    paths = {path for module in house.modules.values() for path in module.named}
    assert len(paths) > 200
    dangling = {}
    for path in paths:
        try:
            load_internal(path)
        except RlrunError as error:
            dangling[path] = str(error)
    assert dangling == {}


def layers() -> dict[str, list[set[str]]]:
    """Layers of each package with a contract, from top to bottom."""
    data = tomllib.loads((ROOT / "pyproject.toml").read_text())
    return {
        contract["containers"][0]: [{name.strip() for name in layer.split("|")} for layer in contract["layers"]]
        for contract in data["tool"]["importlinter"]["contracts"]
        if contract["type"] == "layers"
    }


def test_import_paths_in_a_module_point_only_to_its_own_or_lower_layers(house: House) -> None:
    upwards = set()
    for package, own in layers().items():
        height = {name: number for number, layer in enumerate(own) for name in layer}
        for module in house.modules.values():
            for path in module.named:
                named = path.partition(":")[0]
                if not all(name.startswith(f"{package}.") for name in (module.name, named)) or named in PUBLIC:
                    continue
                start, end = (name.removeprefix(f"{package}.").split(".")[0] for name in (module.name, named))
                if height[start] > height[end] and not (package == "rlrun" and end in BY_NAME):
                    upwards.add(f"{module.name} names {path}")
    assert upwards == set()
