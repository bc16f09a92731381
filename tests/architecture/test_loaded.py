"""How many modules a training loads, measured in new processes: all that one may step into with a debugger."""

from __future__ import annotations

import pytest

from scripts.loaded import TRAININGS, code_lines, loaded_by

BOUNDS = {"ppo": (217, 15_650), "dqn": (237, 17_150), "sac": (241, 17_450), "qmix": (256, 18_750)}
"""Maximum number of modules and of code lines, a tenth above the current numbers; `scripts/loaded.py` lists them."""


@pytest.mark.parametrize("name", TRAININGS)
def test_training_loads_no_more_modules_and_lines_than_allowed(name: str) -> None:
    loaded = loaded_by(*TRAININGS)[name]
    modules, lines = BOUNDS[name]
    assert len(loaded) <= modules
    assert code_lines(loaded) <= lines
