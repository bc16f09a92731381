"""From a spec to its searcher."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from rlrun.engine.messages.errors import UsageError
from rlrun.experiments.search.searchers.make_searcher import check_installed, make_searcher
from rlrun.experiments.spec.experiment import Experiment
from rlrun.experiments.spec.load import load_experiments

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


def experiment(folder: Path, kind: str = "optuna", mode: str = "max") -> Experiment:
    scheduler = "  scheduler: bohb\n" if kind == "bohb" else ""
    (folder / "spec.yaml").write_text(SPEC % (kind, mode) + scheduler)
    return load_experiments([folder / "spec.yaml"])[0]


@pytest.mark.parametrize("kind", ["optuna", "bohb"])
def test_suggestions_become_trials_that_the_config_accepts(kind: str, tmp_path: Path, wording) -> None:
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


def test_the_run_directory_holds_the_journal_and_optunas_study(tmp_path: Path) -> None:
    for kind in ("optuna", "bohb"):
        (tmp_path / kind).mkdir()
        make_searcher(experiment(tmp_path, kind), tmp_path / kind).suggest(0)
    assert {str(path.relative_to(tmp_path)) for path in tmp_path.glob("*/*")} == {
        "optuna/search.jsonl",
        "optuna/optuna.log",
        "bohb/search.jsonl",
    }


def test_a_search_goes_on_in_the_same_directory(tmp_path: Path) -> None:
    first = make_searcher(experiment(tmp_path), tmp_path)
    for number in range(6):
        first.suggest(number)
        first.complete(number, float(number))
    known = first.suggested
    copy = shutil.copytree(tmp_path, tmp_path / "moved")
    second = make_searcher(experiment(tmp_path), copy)
    assert second.suggested == known
    assert second.suggest(6) == first.suggest(6)


def test_a_spec_whose_mode_has_changed_is_another_search(tmp_path: Path, wording) -> None:
    make_searcher(experiment(tmp_path), tmp_path)
    with wording.raised(UsageError):
        make_searcher(experiment(tmp_path, mode="min"), tmp_path)


def test_a_missing_package_is_told_with_the_pip_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wording
) -> None:
    spec = experiment(tmp_path)
    monkeypatch.setitem(sys.modules, "optuna", None)
    for call in (lambda: check_installed("optuna"), lambda: make_searcher(spec, tmp_path)):
        with pytest.raises(UsageError) as raised:
            call()
        assert str(raised.value) == wording("rlrun[optuna]")
    assert not (tmp_path / "search.jsonl").exists()


def test_nothing_heavy_is_imported_before_something_is_suggested(tmp_path: Path) -> None:
    (tmp_path / "spec.yaml").write_text(SPEC % ("optuna", "max"))
    code = (
        "import sys; from rlrun.experiments.spec.load import load_experiments\n"
        "from rlrun.experiments.search.searchers import make_searcher\n"
        f"spec, = load_experiments([{str(tmp_path / 'spec.yaml')!r}])\n"
        "make_searcher.check_installed(spec.searcher.kind)\n"
        "print(sorted({'optuna', 'torch', 'ray', 'scipy'} & sys.modules.keys()))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "[]\n", done.stderr
