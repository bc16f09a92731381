"""What `import rlrun` offers, and that it costs nothing before it is used."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys

import pytest

import rlrun
from rlrun.registry import BUILT_IN, algorithm_class

ALGORITHMS = {name: algorithm_class(name).__name__ for name in BUILT_IN}
NAMES = {"Algorithm", "Experiment", "RlrunError", "TrialResult", "load_experiments", "resume", "run"}


def test_the_public_names_are_these_and_a_class_for_each_algorithm() -> None:
    assert set(rlrun.__all__) == NAMES | set(ALGORITHMS.values())
    assert set(dir(rlrun)) >= set(rlrun.__all__)


def test_a_class_trains_the_algorithm_whose_plugin_has_its_name() -> None:
    assert {name: getattr(rlrun, found).algorithm for name, found in ALGORITHMS.items()} == {
        name: name for name in ALGORITHMS
    }


def test_every_public_name_is_there_and_says_what_it_is() -> None:
    for name in rlrun.__all__:
        found = getattr(rlrun, name)
        assert found.__name__ == ("TrainedAlgorithm" if name == "Algorithm" else name)
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
