"""Evolution on remote workers: the same curve with any number of them, even if one dies."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rlrun
from rlrun import ARS, ES, Training
from rlrun.experiments.search.lineage import read_generations
from rlrun.experiments.spec.load import parse_experiments
from rlrun.experiments.spec.settings import with_settings
from rlrun.experiments.trial.exploit import Exploit
from rlrun.experiments.trial.trial_loop import TrialLoop

pytestmark = pytest.mark.usefixtures("running_ray")

SETTINGS: dict[str, Any] = {
    "min_env_steps_per_iteration": 0,
    "num_pairs": 5,
    "num_envs_per_worker": 4,
    "normalize_observations": True,
}
SEARCH: dict[str, Any] = {
    "algorithm": "ars",
    "env": "rlrun.toys:DoubleIntegrator",
    "config": {"num_pairs": 1, "num_envs_per_worker": 2, "min_env_steps_per_iteration": 0},
}


def trained(kind: type[Any], env: Any, iterations: int, **settings: Any) -> bytes:
    with Training(env, kind(**{**SETTINGS, **settings}), seed=3) as training:
        for _ in range(iterations):
            training.step()
        parameters: bytes = training.running.trainee.learner.flat().tobytes()
    return parameters


@pytest.mark.parametrize(("kind", "numbers"), [(ES, (1, 3)), (ARS, (2,))])
def test_results_do_not_depend_on_the_number_of_workers(kind: type[Any], numbers: tuple[int, ...]) -> None:
    alone = trained(kind, "CartPole-v1", 3)
    for num_workers in numbers:
        assert trained(kind, "CartPole-v1", 3, num_workers=num_workers) == alone


def test_a_worker_that_dies_does_not_change_the_results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(Path(__file__).parent)
    note = tmp_path / "died"
    env = {"id": "strange_envs:DiesOnce", "kwargs": {"note": str(note)}}
    broken = trained(ES, env, 3, num_workers=2)
    assert note.exists()
    assert trained(ES, env, 3) == broken  # the death is noted, so no worker dies again


def test_a_search_continues_from_another_searchs_checkpoint_with_its_own_settings(tmp_path: Path) -> None:
    (search,) = parse_experiments({"search": {**SEARCH, "stop": {"iteration": 3}}})
    with TrialLoop(search.first_trial(), tmp_path / "donor") as donor:
        donor.step()
        parent = donor.save()
        flat = donor.training.running.trainee.learner.flat()
    changed = {"lr": 0.5, "sigma": 0.25}
    trial = search.first_trial().replace(seed=1)
    with TrialLoop(trial, tmp_path / "member") as loop:
        loop.step()
        loop.save()
        loop.apply_exploit(Exploit(1, with_settings(trial, changed), parent))
        np.testing.assert_array_equal(loop.training.running.trainee.learner.flat(), flat)
        row = loop.step()
    assert {name: row[f"learner/{name}"] for name in changed} == changed


@pytest.mark.regress
def test_in_a_population_of_searches_the_better_one_is_copied_and_settings_are_mutated(tmp_path: Path) -> None:
    generation = 200  # env steps: two candidates, one episode of 100 steps each
    mutations = {"lr": {"loguniform": [1e-3, 1e-1]}, "sigma": {"loguniform": [1e-3, 1e-1]}}
    entry = {
        **SEARCH,
        "stop": {"env_steps": 3 * generation},
        "num_samples": 2,
        "scheduler": {"pbt": {"interval_env_steps": generation, "mutations": mutations, "quantile_fraction": 0.5}},
    }
    trials = rlrun.run({"searches": entry}, runs_dir=tmp_path)
    assert {trial.status for trial in trials} == {"TERMINATED"}
    lines = read_generations(tmp_path / "searches")
    assert any(member.parent is not None for line in lines for member in line.members)
    for trial in trials:
        params = {line.generation: own.params for line in lines for own in line.members if own.trial == trial.name}
        for number, row in enumerate(trial.results()):
            assert row["env_steps"] == (number + 1) * generation
            assert {name: row[f"learner/{name}"] for name in mutations} == params[number]
