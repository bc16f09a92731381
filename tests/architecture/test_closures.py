"""How much of the package an algorithm's file reaches: what one may have to read in order to understand it."""

from __future__ import annotations

import pytest

from tools.house import ROOT, House

# Files and lines by imports that run, also those in functions, and files by imports for type checkers as well. They
# may fall and never rise; the aim is 50 files of 6,500 lines, and 90 files.
PPO_RUNS, PPO_LINES, PPO_TYPES = 54, 6_900, 92


@pytest.fixture(scope="module")
def house() -> House:
    return House(ROOT)


def test_ppo_reaches_no_more_than_it_needs(house: House) -> None:
    runs = house.closure("rlrun.algorithms.ppo", "function")
    assert len(runs) <= PPO_RUNS
    assert sum(house.modules[name].num_lines for name in runs) <= PPO_LINES
    assert len(house.closure("rlrun.algorithms.ppo", "types")) <= PPO_TYPES


def test_no_modules_import_each_other_not_even_for_types(house: House) -> None:
    assert house.cycles() == []
