"""How much a training loads, measured in fresh processes: what one may meet who follows it with a debugger."""

from __future__ import annotations

import pytest

from scripts.loaded import TRAININGS, code_lines, loaded_by

BOUNDS = {"ppo": (225, 15_900), "dqn": (245, 17_500), "sac": (247, 17_700), "qmix": (262, 18_900)}
"""Maximum number of modules and of their code lines, a tenth above what there is; `scripts/loaded.py` lists them."""


@pytest.mark.parametrize("name", TRAININGS)
def test_a_training_loads_what_it_uses(name: str) -> None:
    loaded = loaded_by(*TRAININGS)[name]
    modules, lines = BOUNDS[name]
    assert len(loaded) <= modules
    assert code_lines(loaded) <= lines
