"""Evolution on remote workers: the same curve with any number of them, also where one dies."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rlrun.python_api import ARS, ES

pytestmark = pytest.mark.usefixtures("running_ray")

SETTINGS: dict[str, Any] = {"num_pairs": 5, "num_envs_per_worker": 4, "normalize_observations": True}


def trained(kind: type[Any], env: Any, iterations: int, **settings: Any) -> bytes:
    with kind(env, {**SETTINGS, **settings}, seed=3) as algorithm:
        for _ in range(iterations):
            algorithm.train()
        parameters: bytes = algorithm.training.trainee.learner.flat().tobytes()
    return parameters


@pytest.mark.parametrize("kind", [ES, ARS])
def test_the_same_comes_out_with_any_number_of_workers(kind: type[Any]) -> None:
    alone = trained(kind, "CartPole-v1", 3)
    for num_workers in (1, 3):
        assert trained(kind, "CartPole-v1", 3, num_workers=num_workers) == alone


def test_a_worker_that_dies_costs_its_evaluations_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(Path(__file__).parent)
    note = tmp_path / "died"
    env = {"id": "strange_envs:DiesOnce", "kwargs": {"note": str(note)}}
    broken = trained(ES, env, 3, num_workers=2)
    assert note.exists()
    assert trained(ES, env, 3) == broken  # it is noted: nobody dies any more
