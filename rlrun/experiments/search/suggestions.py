"""Connection between a searcher and a run: trials for suggested configurations, and scores as feedback.

Each configuration runs with every seed of the experiment; its score is the mean over the seeds.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from statistics import fmean
from typing import Any

from rlrun.engine.messages.errors import UsageError
from rlrun.engine.messages.explain import Location
from rlrun.experiments.runs.run_directory import RunDirectory
from rlrun.experiments.search.searchers.bohb import BohbSearcher
from rlrun.experiments.search.searchers.dimension import dimensions_of
from rlrun.experiments.search.searchers.journal import JOURNAL_FILE, JournaledSearcher
from rlrun.experiments.search.searchers.optuna import STUDY_FILE, OptunaSearcher, OptunaStudyFile
from rlrun.experiments.search.searchers.searcher import Configuration, Searcher
from rlrun.experiments.spec.experiment import Experiment, TrialSpec
from rlrun.experiments.trial.results import read_results

SEARCHERS: dict[str, type[Searcher]] = {"optuna": OptunaSearcher, "bohb": BohbSearcher}
"""Searcher classes by their names in a spec; random search is not among them."""


class Suggestions:
    """Source of a run's trials: asks the searcher for configurations, and creates one trial per seed for each of them.

    Attributes:
        max_concurrent: Maximum number of configurations that run at once; None for no limit.
    """

    def __init__(self, experiment: Experiment, directory: RunDirectory) -> None:
        """Starts a new search, or restores one from the run's directory.

        Raises:
            UsageError: The searcher's package is not installed.
        """
        assert experiment.searcher is not None
        settings = experiment.searcher.settings
        assert settings is not None, "random search does not need a searcher"
        self.max_concurrent = settings.max_concurrent
        self._experiment = experiment
        self._directory = directory
        self._metric = settings.metric
        self._searcher = make_searcher(experiment, directory.path)
        self._configuration = {name: directory.trial(name).configuration for name in directory.table.trials}
        self._failed = {name for name in directory.table.trials if directory.record(name).status == "ERROR"}
        self._over = {name for name in directory.table.trials if directory.record(name).status == "TERMINATED"}
        self._over |= self._failed
        self._waiting: set[str] = set()
        self._seen: dict[tuple[int, float], dict[str, float]] = defaultdict(dict)
        for configuration in sorted(set(self._configuration.values())):
            self._complete_if_over(configuration)

    def notes(self) -> list[str]:
        """Returns the searcher's messages for the user that were added since the last call, and clears them."""
        return self._searcher.notes()

    @property
    def is_over(self) -> bool:
        """Whether all configurations of the search have been suggested."""
        return len(set(self._configuration.values())) >= self._experiment.num_samples

    def running(self) -> int:
        """Number of configurations with at least one trial that has not ended and is not waiting.

        Waiting trials are excluded, since they may be waiting for configurations that have not been suggested yet.
        """
        idle = self._over | self._waiting
        return len({number for name, number in self._configuration.items() if name not in idle})

    def waits(self, trial: str) -> None:
        """Marks a trial as waiting at a rung for other trials."""
        self._waiting.add(trial)

    def goes_on(self, trial: str) -> None:
        """Marks a trial as running again after it waited at a rung for other trials."""
        self._waiting.discard(trial)

    def next_trials(self) -> list[TrialSpec]:
        """Creates the trials of the next suggested configuration, one per seed, and adds them to the run."""
        number = len(set(self._configuration.values()))
        values: Mapping[Location, Any] = self._searcher.suggest(number)
        trials = []
        for place, seed in enumerate(self._experiment.seeds):
            index = number * len(self._experiment.seeds) + place
            trials.append(self._experiment.trial(values, index=index, configuration=number, seed=seed))
        self._directory.add(trials)
        self._configuration |= {trial.name: number for trial in trials}
        return trials

    def observe(self, trial: str, budget: float, score: float) -> None:
        """Records a trial's metric at a rung, and passes the mean to the searcher once all seeds have reached the rung.

        Args:
            trial: Name of the trial.
            budget: The rung, in units of the scheduler's `time_attr`.
            score: The searcher's metric at the rung.
        """
        number = self._configuration[trial]
        seen = self._seen[number, budget]
        seen[trial] = score
        if len(seen) == len(self._experiment.seeds):
            self._searcher.observe(number, budget, fmean(seen.values()))

    def ended(self, trial: str, *, failed: bool) -> None:
        """Records the end of a trial; the last trial of a configuration completes the configuration.

        Args:
            trial: Name of the trial.
            failed: Whether the trial failed; a configuration with a failed trial has no score.
        """
        self._over.add(trial)
        if failed:
            self._failed.add(trial)
        else:
            self._failed.discard(trial)  # the trial was retried
        self._complete_if_over(self._configuration[trial])

    def _complete_if_over(self, number: int) -> None:
        names = {name for name, configuration in self._configuration.items() if configuration == number}
        if names <= self._over:
            scores = [self._score(name) for name in sorted(names)]
            known = [score for score in scores if score is not None]
            self._searcher.complete(number, fmean(known) if len(known) == len(scores) else None)

    def _score(self, trial: str) -> float | None:
        if trial in self._failed:
            return None
        values = [row.get(self._metric) for row in read_results(self._directory.path / trial)]
        return next((float(value) for value in reversed(values) if value is not None), None)


def check_installed(kind: str) -> None:
    """Checks that a searcher's package is installed, without importing it.

    Raises:
        UsageError: The package is missing; the message contains the pip command.
    """
    if kind == "optuna" and find_spec(kind) is None:
        raise UsageError(
            f"searcher {kind} needs the package {kind}, which is not installed: pip install 'rlrun[{kind}]'"
        )


def make_searcher(experiment: Experiment, run_directory: Path) -> JournaledSearcher:
    """Creates an experiment's searcher, restored from the run's journal if one exists.

    Args:
        experiment: The experiment, with a searcher other than random.
        run_directory: Directory of the run, which holds the journal and Optuna's study.

    Raises:
        UsageError: The searcher's package is missing, or the journal belongs to another search.
        OutOfResources: The disk is full.
    """
    assert experiment.searcher is not None
    kind, settings = experiment.searcher.kind, experiment.searcher.settings
    assert settings is not None, "random search does not need a searcher"
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
