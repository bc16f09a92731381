"""Factory of searchers from a spec's searcher settings."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from rlrun.engine.messages.errors import UsageError
from rlrun.experiments.search.searchers.bohb import BohbSearcher
from rlrun.experiments.search.searchers.dimension import dimensions_of
from rlrun.experiments.search.searchers.journal import JOURNAL_FILE, JournaledSearcher
from rlrun.experiments.search.searchers.optuna import STUDY_FILE, OptunaSearcher, OptunaStudyFile
from rlrun.experiments.search.searchers.searcher import Configuration, Searcher
from rlrun.experiments.spec.experiment import Experiment

SEARCHERS: dict[str, type[Searcher]] = {"optuna": OptunaSearcher, "bohb": BohbSearcher}
"""Searcher classes by their names in a spec; random search is not among them."""


def check_installed(kind: str) -> None:
    """Checks that a searcher's package is installed, without importing it.

    Raises:
        UsageError: The package is missing; the message has the pip command.
    """
    if kind == "optuna" and find_spec(kind) is None:
        raise UsageError(f"searcher {kind}: the package {kind} is not installed: pip install 'rlrun[{kind}]'")


def make_searcher(experiment: Experiment, run_directory: Path) -> JournaledSearcher:
    """Creates an experiment's searcher, restored from the run's journal if one exists.

    Args:
        experiment: The experiment, with another searcher than random.
        run_directory: Directory of the run, with the journal and Optuna's study.

    Raises:
        UsageError: The searcher's package is missing, or the journal belongs to another search.
        OutOfResources: The disk is full.
    """
    assert experiment.searcher is not None
    kind, settings = experiment.searcher.kind, experiment.searcher.settings
    assert settings is not None, "random draws need no searcher"
    check_installed(kind)
    dimensions = dimensions_of(experiment.spaces())
    head = {
        "format": 1,
        "searcher": kind,
        "metric": settings.metric,
        "mode": settings.mode,
        "seed": experiment.seeds[0],
        "startup_trials": settings.startup_trials,
        "spaces": {dimension.name: dimension.space.to_data() for dimension in dimensions},
    }

    def check(values: Configuration) -> None:
        experiment.trial(values, index=0, configuration=0, seed=experiment.seeds[0])

    study_file = OptunaStudyFile(run_directory / STUDY_FILE, experiment.name) if kind == "optuna" else None
    return JournaledSearcher(SEARCHERS[kind](), run_directory / JOURNAL_FILE, head, dimensions, check, study_file)
