"""The file in the run directory that Optuna's own tools open."""

import os
import resource
from pathlib import Path

import optuna
import pytest
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
from optuna.trial import TrialState

from rlrun.engine.messages.errors import OutOfResources
from rlrun.experiments.search.searchers.dimension import dimensions_of
from rlrun.experiments.search.searchers.journal import JournaledSearcher
from rlrun.experiments.search.searchers.optuna import OptunaSearcher, OptunaStudyFile
from rlrun.experiments.spec.search_space import find_spaces

SPACES = {
    "lr": {"loguniform": [1e-5, 1e-1]},
    "batch": {"qrandint": [16, 64, 16]},
    "clip": {"quniform": [0.1, 0.3, 0.1]},
    "net": {"choice": [[64, 64], "wide", "wide", None]},
    "bias": {"normal": [3.0, 2.0]},
    "only": {"choice": [True]},
}


def open_search(folder: Path, mode: str = "max") -> JournaledSearcher:
    study_file = OptunaStudyFile(folder / "optuna.log", "cartpole")
    head = {"mode": mode, "seed": 0, "startup_trials": 4}
    dimensions = dimensions_of(find_spaces(SPACES)[0])
    return JournaledSearcher(
        OptunaSearcher(), folder / "search.jsonl", head, dimensions, lambda values: None, study_file
    )


def study(folder: Path) -> optuna.Study:
    storage = JournalStorage(JournalFileBackend(str(folder / "optuna.log")))
    return optuna.load_study(study_name="cartpole", storage=storage, sampler=optuna.samplers.RandomSampler())


def test_the_study_contains_every_configuration_with_its_state_and_score(tmp_path: Path) -> None:
    searcher = open_search(tmp_path)
    for number in range(6):
        searcher.suggest(number)
    for number, score in ((0, 1.5), (3, None), (2, 2.5)):
        searcher.complete(number, score)
    trials = study(tmp_path).trials
    assert [trial.value for trial in trials] == [1.5, None, 2.5, None, None, None]
    assert [trial.state for trial in trials] == [
        TrialState.COMPLETE,
        TrialState.RUNNING,
        TrialState.COMPLETE,
        TrialState.FAIL,
        TrialState.RUNNING,
        TrialState.RUNNING,
    ]
    labels = {"[64, 64]": [64, 64], "wide": "wide", "wide'": "wide", "null": None}
    for number, values in searcher.suggested.items():
        params = trials[number].params
        assert (params["lr"], params["batch"], params["clip"]) == (
            values[("lr",)],
            values[("batch",)],
            values[("clip",)],
        )
        assert labels[params["net"]] == values[("net",)]
        assert trials[number].user_attrs == {"bias": values[("bias",)]}


def test_parameters_of_the_study_have_the_distributions_given_in_the_spec(tmp_path: Path) -> None:
    open_search(tmp_path).suggest(0)
    assert study(tmp_path).trials[0].distributions == {
        "lr": FloatDistribution(1e-5, 1e-1, log=True),
        "batch": IntDistribution(16, 64, step=16),
        "clip": FloatDistribution(0.05, 0.35000000000000003),
        "net": CategoricalDistribution(("[64, 64]", "wide", "wide'", "null")),
        "bias (quantile)": FloatDistribution(1e-9, 1 - 1e-9),
    }


@pytest.mark.parametrize(("mode", "direction"), [("max", "MAXIMIZE"), ("min", "MINIMIZE")])
def test_the_direction_of_the_study_follows_the_mode_and_scores_keep_their_sign(
    mode: str, direction: str, tmp_path: Path
) -> None:
    searcher = open_search(tmp_path, mode)
    searcher.suggest(0)
    searcher.complete(0, -3.0)
    assert study(tmp_path).direction.name == direction
    assert study(tmp_path).best_value == -3.0


def test_a_resume_rewrites_the_same_study_even_if_its_file_was_damaged(tmp_path: Path) -> None:
    searcher = open_search(tmp_path)
    for number in range(8):
        searcher.suggest(number)
    for number in range(6):
        searcher.complete(number, None if number == 2 else float(number))
    before = study(tmp_path).trials
    for damage in (b"", b"{torn", b"{}\n" * 3):
        (tmp_path / "optuna.log").write_bytes(damage)
        open_search(tmp_path)
        after = study(tmp_path).trials
        assert [(t.params, t.state, t.value, t.user_attrs) for t in after] == [
            (t.params, t.state, t.value, t.user_attrs) for t in before
        ]
        for was, now in zip(before, after, strict=True):
            assert was.datetime_start is not None
            assert now.datetime_start is not None
            assert abs((was.datetime_start - now.datetime_start).total_seconds()) < 1e-3


def test_a_resumed_search_continues_its_optuna_study(tmp_path: Path) -> None:
    open_search(tmp_path).suggest(0)
    resumed = open_search(tmp_path)
    resumed.complete(0, 1.0)
    resumed.suggest(1)
    assert [trial.state for trial in study(tmp_path).trials] == [TrialState.COMPLETE, TrialState.RUNNING]


def test_a_configuration_completed_again_is_given_its_new_score_in_the_study(tmp_path: Path) -> None:
    searcher = open_search(tmp_path)
    for number in range(3):
        searcher.suggest(number)
    for score in (None, 1.0, 2.0):
        searcher.complete(1, score)
    searcher.complete(2, 5.0)
    assert [trial.value for trial in study(tmp_path).trials] == [None, 2.0, 5.0]


@pytest.mark.parametrize("damage", [b"", b"{torn", None])
def test_a_deleted_or_damaged_study_file_does_not_affect_the_search(damage: bytes | None, tmp_path: Path) -> None:
    searcher = open_search(tmp_path)
    searcher.suggest(0)
    (tmp_path / "optuna.log").unlink()
    if damage is not None:
        (tmp_path / "optuna.log").write_bytes(damage)
    searcher.complete(0, 1.0)
    for number in range(1, 6):
        searcher.suggest(number)
        searcher.complete(number, 1.0)
    assert len(open_search(tmp_path).suggested) == len(study(tmp_path).trials) == 6


def test_a_stale_lock_left_by_a_kill_does_not_block_a_resume(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    open_search(tmp_path).suggest(0)
    os.symlink("optuna.log", tmp_path / "optuna.log.lock")
    monkeypatch.setattr("time.sleep", pytest.fail)  # Optuna sleeps while it waits for a lock
    open_search(tmp_path)
    assert not (tmp_path / "optuna.log.lock").is_symlink()


def test_a_full_disk_is_reported_and_leaves_the_study_usable(tmp_path: Path) -> None:
    searcher = open_search(tmp_path)
    searcher.suggest(0)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, ((tmp_path / "optuna.log").stat().st_size + 10, hard))
    try:
        with pytest.raises(OutOfResources, match=r"optuna\.log"):
            searcher.suggest(1)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert list(open_search(tmp_path).suggested) == [0, 1]
    assert len(study(tmp_path).trials) == 2
