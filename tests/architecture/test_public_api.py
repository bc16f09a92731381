"""What `import rlrun` offers, and that it costs nothing before it is used."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys

import pytest

import rlrun
import rlrun.algorithms.ppo
from rlrun.engine.settings.registry import BUILT_IN, algorithm_class

ALGORITHMS = {algorithm_class(name).__name__ for name in BUILT_IN}
NAMES = {"Algorithm", "Experiment", "RlrunError", "Training", "TrialResult", "load_experiments", "resume", "run"}


def test_the_public_names_are_these_and_a_class_for_each_algorithm() -> None:
    assert set(dir(rlrun)) >= NAMES | ALGORITHMS
    assert len(ALGORITHMS) == len(BUILT_IN)


def test_the_class_of_an_algorithm_is_its_plugin() -> None:
    assert rlrun.PPO is rlrun.algorithms.ppo.PPO
    found = {getattr(rlrun, algorithm_class(name).__name__).name() for name in BUILT_IN}
    assert found == set(BUILT_IN)


def test_every_public_name_is_there_and_says_what_it_is() -> None:
    for name in NAMES | ALGORITHMS:
        found = getattr(rlrun, name)
        assert found.__name__ == name
        assert inspect.getdoc(found), name


def test_a_name_that_does_not_exist_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match=r"^module 'rlrun' has no attribute 'train'$"):
        rlrun.train  # noqa: B018 (asking for it is the point)


def test_importing_rlrun_imports_none_of_its_rooms() -> None:
    script = (
        "import json, sys, rlrun; print(json.dumps(sorted(name for name in sys.modules if name.startswith('rlrun'))))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == ["rlrun"]
