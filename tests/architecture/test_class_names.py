"""Names of classes: a reader who meets one knows which is meant."""

from __future__ import annotations

from collections import Counter

from scripts.house import House

SHARED = {
    "Manifest": "the list of files in a folder, in `checkpoint/` and in `datasets/`: no module knows both",
    "UniformSampler": "draws with equal probabilities: elements of a space, or rows of a replay; no module knows both",
}
"""Names of several public classes, each with the reason why a further word would say nothing more."""


def test_public_classes_have_names_of_their_own(house: House) -> None:
    names = Counter(name.rpartition(".")[2] for name in house.classes())
    shared = {name for name, number in names.items() if number > 1 and not name.startswith("_")}
    assert shared == set(SHARED)
