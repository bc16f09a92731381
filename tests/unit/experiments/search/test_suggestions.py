"""What a searcher hears about trials, and the trials made from its suggestions."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from rlrun.engine.messages.errors import UsageError
from rlrun.experiments.runs.run_directory import RunDirectory
from rlrun.experiments.search.searchers.journal import JOURNAL_FILE
from rlrun.experiments.search.suggestions import Suggestions, check_installed, make_searcher
from rlrun.experiments.spec.experiment import Experiment
from rlrun.experiments.spec.load import load_experiments, parse_experiments
from rlrun.experiments.trial.results import RESULT_FILE
from rlrun.experiments.trial.trial_directory import TrialDirectory

SPEC = """
tuned:
  algorithm: ppo
  env: CartPole-v1
  seeds: [5, 6]
  num_samples: 30
  searcher: {%s: {mode: %s, startup_trials: 4}}
  stop: {env_steps: 2000}
  config:
    lr: {loguniform: [1e-5, 1e-2]}
    train_batch_size: {choice: [1024, 512]}
    minibatch_size: {choice: [64, 1024]}
    model: {hiddens: {choice: [[64, 64], [32]]}}
"""


def suggestions(runs: Path, start: Path | None = None) -> Suggestions:
    entry = {
        "algorithm": "ppo",
        "env": "CartPole-v1",
        "searcher": "bohb",
        "scheduler": "bohb",
        "num_samples": 4,
        "seeds": 2,
        "stop": {"env_steps": 9000},
        "config": {"lr": {"loguniform": [1e-4, 1e-2]}},
    }
    (experiment,) = parse_experiments({"swept": entry})
    return Suggestions(experiment, RunDirectory.create(runs, "swept", experiment, [], "ray", start))


def test_a_configuration_counts_as_running_until_all_its_trials_wait_or_have_ended(tmp_path: Path) -> None:
    sweep = suggestions(tmp_path)
    first, second = sweep.next_trials()
    assert (first.params, first.seed, second.seed) == (second.params, 0, 1)
    assert sweep.running() == 1
    sweep.waits(first.name)
    assert sweep.running() == 1
    sweep.waits(second.name)
    assert sweep.running() == 0
    sweep.goes_on(first.name)
    assert sweep.running() == 1
    sweep.next_trials()
    assert sweep.running() == 2


def write_rows(run: Path, trial: str, *returns: float | None) -> None:
    rows = [{"iteration": place, "episode_return_mean": value} for place, value in enumerate(returns, start=1)]
    (run / trial / RESULT_FILE).write_text("".join(json.dumps(row) + "\n" for row in rows))


def test_a_configurations_score_is_its_trials_mean_last_value_even_if_one_succeeds_after_failing(
    tmp_path: Path,
) -> None:
    sweep = suggestions(tmp_path)
    first, second = sweep.next_trials()
    write_rows(tmp_path / "swept", first.name, 10.0, 20.0, None)
    write_rows(tmp_path / "swept", second.name, 40.0)
    sweep.ended(first.name, failed=False)
    sweep.ended(second.name, failed=True)
    sweep.ended(second.name, failed=False)
    ends = [json.loads(line) for line in (tmp_path / "swept" / JOURNAL_FILE).read_text().splitlines()]
    assert [line["score"] for line in ends if "complete" in line] == [None, 30.0]


def test_trials_created_by_a_searcher_start_from_the_given_checkpoint(tmp_path: Path) -> None:
    sweep = suggestions(tmp_path, tmp_path / "checkpoint")
    first, _ = sweep.next_trials()
    record = TrialDirectory(tmp_path / "swept" / first.name).read_record()
    assert record is not None
    assert record.from_checkpoint == str(tmp_path / "checkpoint")


def experiment(folder: Path, kind: str = "optuna", mode: str = "max") -> Experiment:
    scheduler = "  scheduler: bohb\n" if kind == "bohb" else ""
    (folder / "spec.yaml").write_text(SPEC % (kind, mode) + scheduler)
    return load_experiments([folder / "spec.yaml"])[0]


@pytest.mark.parametrize("kind", ["optuna", "bohb"])
def test_suggestions_are_adjusted_into_valid_trials_and_adjustments_are_noted(
    kind: str, tmp_path: Path, wording
) -> None:
    spec = experiment(tmp_path, kind)
    searcher = make_searcher(spec, tmp_path)
    for number in range(12):
        values = searcher.suggest(number)
        trial = spec.trial(values, index=number, configuration=number, seed=5)
        assert trial.params == {
            "lr": values[("config", "lr")],
            "train_batch_size": values[("config", "train_batch_size")],
            "minibatch_size": values[("config", "minibatch_size")],
            "hiddens": values[("config", "model", "hiddens")],
        }
        searcher.complete(number, trial.params["minibatch_size"])
    assert searcher.notes()[0] == wording("minibatch_size", "train_batch_size", "1024")


def test_the_run_directory_holds_the_search_journal_and_the_optuna_study(tmp_path: Path) -> None:
    for kind in ("optuna", "bohb"):
        (tmp_path / kind).mkdir()
        make_searcher(experiment(tmp_path, kind), tmp_path / kind).suggest(0)
    assert {str(path.relative_to(tmp_path)) for path in tmp_path.glob("*/*")} == {
        "optuna/search.jsonl",
        "optuna/optuna.log",
        "bohb/search.jsonl",
    }


def test_a_search_can_be_continued_in_a_copy_of_its_directory(tmp_path: Path) -> None:
    first = make_searcher(experiment(tmp_path), tmp_path)
    for number in range(6):
        first.suggest(number)
        first.complete(number, float(number))
    known = first.suggested
    copy = shutil.copytree(tmp_path, tmp_path / "moved")
    second = make_searcher(experiment(tmp_path), copy)
    assert second.suggested == known
    assert second.suggest(6) == first.suggest(6)


def test_a_search_is_not_resumed_with_a_different_mode(tmp_path: Path, wording) -> None:
    make_searcher(experiment(tmp_path), tmp_path)
    with wording.raised(UsageError):
        make_searcher(experiment(tmp_path, mode="min"), tmp_path)


def test_a_missing_package_is_reported_with_its_pip_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wording
) -> None:
    spec = experiment(tmp_path)
    monkeypatch.setitem(sys.modules, "optuna", None)
    for call in (lambda: check_installed("optuna"), lambda: make_searcher(spec, tmp_path)):
        with pytest.raises(UsageError) as raised:
            call()
        assert str(raised.value) == wording("rlrun[optuna]")
    assert not (tmp_path / "search.jsonl").exists()


def test_no_large_package_is_imported_before_the_first_suggestion(tmp_path: Path) -> None:
    (tmp_path / "spec.yaml").write_text(SPEC % ("optuna", "max"))
    code = (
        "import sys; from rlrun.experiments.spec.load import load_experiments\n"
        "from rlrun.experiments.search import suggestions\n"
        f"spec, = load_experiments([{str(tmp_path / 'spec.yaml')!r}])\n"
        "suggestions.check_installed(spec.searcher.kind)\n"
        "print(sorted({'optuna', 'torch', 'ray', 'scipy'} & sys.modules.keys()))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "[]\n", done.stderr
