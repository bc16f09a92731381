"""Every algorithm that can use a GPU learns there what it learns on the CPU, in the runs of `scripts.golden_runs`.

The first updates are equal up to rounding. After that, the weights, and therefore the actions, may diverge.
"""

import copy
import json
import math
from pathlib import Path
from typing import Any

import pytest

import rlrun
from rlrun.engine.settings.registry import algorithm_class
from scripts.golden_runs import DATA, chosen_runs, entry_here, learning_parts, record_data
from tests.results import all_numbers

pytestmark = pytest.mark.usefixtures("own_folder")

RUNS = {name: entry_here(spec) for name, spec in chosen_runs("small", None).items()}


def takes_a_gpu(entry: dict[str, Any]) -> bool:
    """Whether all algorithms of a run have the setting, and it does not need Ray."""
    parts = learning_parts(entry)
    needs_ray = any(part["config"].get(key) for part in parts for key in ("num_workers", "num_learners"))
    known = all("num_gpus" not in algorithm_class(part["algorithm"]).Config.refused for part in parts)
    return known and not needs_ray and not entry.get("config", {}).get("num_workers")


ON_A_GPU = [name for name, entry in RUNS.items() if takes_a_gpu(entry)]


def trained(name: str, num_gpus: float, compiles: str | bool) -> tuple[list[dict[str, Any]], list[str]]:
    """Trains a golden run; returns its results and remarks."""
    entry = copy.deepcopy(RUNS[name])
    if DATA in json.dumps(entry) and not Path(DATA).exists():
        record_data(Path(DATA))
    for part in learning_parts(entry):
        part["config"] |= {"num_gpus": num_gpus}
        if "compile" not in algorithm_class(part["algorithm"]).Config.refused:
            part["config"]["compile"] = compiles
    remarks: list[str] = []
    (trial,) = rlrun.run(
        {f"{name}-{num_gpus:g}-{compiles}".lower(): entry},
        executor="local",
        watch=lambda event: remarks.append(repr(event)),
    )
    return all_numbers(trial.results()), [remark for remark in remarks if "separate torch operations" in remark]


def first_learning(rows: list[dict[str, Any]]) -> dict[str, float]:
    """The learning metrics of the first row that has some."""
    rows = [{key: value for key, value in row.items() if "learner/" in key} for row in rows]
    return next(row for row in rows if any(isinstance(value, float) and math.isfinite(value) for value in row.values()))


@pytest.mark.parametrize("name", ON_A_GPU)
def test_gpu_updates_match_cpu_updates_and_captured_ones_equal_eager_ones_bit_for_bit(name: str) -> None:
    cpu, _ = trained(name, 0, compiles=False)
    eager, _ = trained(name, 1, compiles=False)
    captured, remarks = trained(name, 1, compiles="auto")
    expected, found = first_learning(cpu), first_learning(eager)
    assert found.keys() == expected.keys()
    apart = {
        key: (value, found[key])
        for key, value in expected.items()
        if isinstance(value, float) and not math.isclose(value, found[key], rel_tol=1e-2, abs_tol=1e-3)
    }
    assert not apart
    assert not remarks
    assert captured == eager
