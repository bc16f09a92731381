"""What one may have to read: import cycles, complex functions, and the files that explain an algorithm."""

from __future__ import annotations

import re

import pytest

from scripts.house import ROOT, House


def test_no_modules_import_each_other_not_even_for_types(house: House) -> None:
    assert house.cycles() == []


MOST_COMPLEX = 20
"""Maximum complexity of a function that validates specs or runs a trial: a further mistake gets a function of its own,
not a further branch."""


def test_checks_of_specs_and_the_loop_of_a_trial_are_in_simple_functions(house: House) -> None:
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
