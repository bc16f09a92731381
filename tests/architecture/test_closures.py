"""How much of the package an algorithm's file reaches: what one may have to read in order to understand it."""

from __future__ import annotations

import re

import pytest

from scripts.house import ROOT, House

# By algorithm: files and lines by imports that run, also those in functions, and files by imports for type checkers as
# well. They may fall, and rise only for what the algorithm itself does, such as dqn's Munchausen targets and its choice
# of a loss. The aims were 50 files of 6,500 lines and 90 files for ppo, 60 files of 8,000 lines and 100 files for dqn
# and sac, 70 and 110 for qmix.
BOUNDS = {
    "ppo": (50, 6_500, 88),
    "dqn": (54, 6_790, 93),
    "sac": (49, 6_450, 98),
    "qmix": (50, 6_650, 91),
}


@pytest.fixture(scope="module")
def house() -> House:
    return House(ROOT)


@pytest.mark.parametrize("algorithm", BOUNDS)
def test_an_algorithm_reaches_no_more_than_it_needs(house: House, algorithm: str) -> None:
    files, lines, with_types = BOUNDS[algorithm]
    runs = house.closure(house.algorithm(algorithm), "function")
    assert len(runs) <= files
    assert sum(house.modules[name].num_lines for name in runs) <= lines
    assert len(house.closure(house.algorithm(algorithm), "types")) <= with_types


@pytest.mark.parametrize("algorithm", BOUNDS)
def test_an_algorithm_reaches_the_interface_of_replays_and_no_buffer(house: House, algorithm: str) -> None:
    reached = {name for name in house.closure(house.algorithm(algorithm)) if name.startswith("rlrun.engine.replay.")}
    assert reached == {"rlrun.engine.replay.replay", "rlrun.engine.replay.replay_config"}


def test_at_most_40_files_hold_what_policies_share() -> None:
    assert len([*(ROOT / "rlrun/engine/policy").rglob("*.py")]) <= 40


def test_no_modules_import_each_other_not_even_for_types(house: House) -> None:
    assert house.cycles() == []


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
"""Questions about PPO, each with code or words by which the files of its page answer it."""


def ppo_files() -> list[str]:
    section = (ROOT / "docs/algorithms/ppo.md").read_text().partition("## Files")[2].partition("\n## ")[0]
    return re.findall(r"\(\.\./\.\./(rlrun/\S+\.py)\)", section)


def test_nine_files_explain_ppo_and_its_page_lists_them_in_reading_order() -> None:
    assert 0 < len(ppo_files()) <= 9
    assert sum(len((ROOT / file).read_text().splitlines()) for file in ppo_files()) <= 1_500


@pytest.mark.parametrize("question", QUESTIONS)
def test_the_files_that_explain_ppo_hold_the_answer(question: str) -> None:
    assert any(QUESTIONS[question] in (ROOT / file).read_text() for file in ppo_files())
