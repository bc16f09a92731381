"""Sizes of classes: what one has to read to know a class, its bases inside the package included."""

from __future__ import annotations

from rlrun.engine.policy.behavior import BehaviorPolicy
from scripts.house import House

MOST_LINES = 300
MOST_LINES_OF_A_BEHAVIOR = 250
MOST_METHODS_OF_A_BEHAVIOR = 18

FAMILIES = {
    "rlrun.engine.settings.config.ConfigModel",  # settings, most of them lines of declarations
    "rlrun.engine.algorithm.Algorithm",  # algorithms, which vary the one that they extend
    "rlrun.engine.policy.behavior.BehaviorPolicy",
}
"""Classes of which subclasses may be longer with their bases."""


def test_a_class_and_its_bases_have_at_most_300_lines(house: House) -> None:
    classes = house.classes()
    alone = {name: each for name, each in classes.items() if not (each.ancestors - {name}) & FAMILIES}
    assert {name for name, each in alone.items() if each.lines_with_bases > MOST_LINES} == set()


def test_a_class_of_a_family_has_at_most_300_lines_by_itself(house: House) -> None:
    assert {name for name, each in house.classes().items() if each.lines > MOST_LINES} == set()


def test_a_behavior_policy_acts_and_leaves_the_rest_to_its_parts(house: House) -> None:
    assert house.classes()["rlrun.engine.policy.behavior.BehaviorPolicy"].lines_with_bases <= MOST_LINES_OF_A_BEHAVIOR
    public = [name for name in vars(BehaviorPolicy) if not name.startswith("_")]
    assert len(public) <= MOST_METHODS_OF_A_BEHAVIOR
