"""Optuna's TPE as a searcher, and a study file that Optuna's own tools can open.

The searcher samples from an in-memory study, which it creates from the history each time. The file is a JournalStorage
with the same trials, for `optuna-dashboard` and `optuna.load_study`; rlrun never reads it.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlrun.engine.checkpoint.durable import explained_full_disk
from rlrun.experiments.search.searchers.dimension import Dimension, as_text
from rlrun.experiments.search.searchers.searcher import Configuration, History

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution
    from optuna.storages.journal import JournalFileBackend
    from optuna.study import Study
    from optuna.trial import FrozenTrial

STUDY_FILE = "optuna.log"
"""File name of Optuna's study in the run's directory."""


class OptunaSearcher:
    """Searcher that uses Optuna's multivariate tree-structured Parzen estimator (arXiv:2304.11127).

    Running configurations count as bad, so that concurrent suggestions differ; failed ones are left out.
    """

    uses_intermediate_results = False

    def propose(self, history: History, seed: int) -> Configuration:
        """Suggests the next hyperparameter configuration, based on the history of the search."""
        import optuna

        optuna.logging.set_verbosity(optuna.logging.WARNING)
        sampler = optuna.samplers.TPESampler(n_startup_trials=1, seed=seed, multivariate=True, constant_liar=True)
        study = optuna.create_study(direction=_direction(history), sampler=sampler)
        study.add_trials([_trial(history, number) for number in sorted(history.configurations)])
        suggested = study.ask(_distributions(history)).params
        return history.values_at(
            [_coordinate(dimension, suggested[_name(dimension)]) for dimension in history.dimensions]
        )


class OptunaStudyFile:
    """Optuna study of a search, as a JournalStorage file in the run's directory."""

    def __init__(self, path: Path, name: str) -> None:
        """Initializes the study file; nothing is written yet.

        Args:
            path: The file.
            name: Name of the study.
        """
        self.path = path
        self.name = name
        self._study: Study
        self._numbers: dict[int, int] = {}

    def write(self, history: History) -> None:
        """Rewrites the whole Optuna study file from the history of the search."""
        import optuna
        from optuna.storages import JournalStorage

        optuna.logging.set_verbosity(optuna.logging.WARNING)
        for old in (self.path, self.path.with_name(f"{self.path.name}.lock")):  # a kill may leave Optuna's lock file
            old.unlink(missing_ok=True)
        self._numbers = {}
        operations = _Operations()
        self._study = optuna.create_study(
            storage=JournalStorage(operations),
            study_name=self.name,
            direction=_direction(history),
            sampler=optuna.samplers.RandomSampler(seed=0),  # nothing is sampled from this study
        )
        for number in sorted(history.configurations):
            self.add(history, number)
        operations.write_to(self.path)

    def add(self, history: History, number: int) -> None:
        """Adds a suggested configuration to the study, with its final state if known."""
        self._study.add_trial(_trial(history, number))
        self._numbers[number] = len(self._numbers)

    def finish(self, history: History, number: int) -> None:
        """Records the final state (score or failure) of a configuration in the study."""
        import optuna

        trial = self._study.get_trials(deepcopy=False)[self._numbers[number]]
        if trial.state.is_finished():  # the trial continued after its end, which Optuna does not support
            self.write(history)
            return
        score = history.scores[number]
        state = optuna.trial.TrialState.FAIL if score is None else optuna.trial.TrialState.COMPLETE
        self._study.tell(trial.number, score, state=state)


class _Operations:
    """Optuna journal backend in memory, with a file that is written but never read.

    Optuna's own JournalFileBackend reads the file before each operation, so changes made by a dashboard would affect
    the search.
    """

    def __init__(self) -> None:
        self._all: list[dict[str, Any]] = []
        self._file: JournalFileBackend | None = None
        self._path = Path()

    def write_to(self, path: Path) -> None:
        """Writes all operations to a file, and appends further operations from now on."""
        from optuna.storages.journal import JournalFileBackend

        earlier, self._all = self._all, []
        self._file, self._path = JournalFileBackend(str(path)), path
        self.append_logs(earlier)

    def read_logs(self, log_number_from: int) -> Iterator[dict[str, Any]]:
        """Operations from a given number on (Optuna's backend interface)."""
        return iter(self._all[log_number_from:])

    def append_logs(self, logs: list[dict[str, Any]]) -> None:
        """Appends operations (Optuna's backend interface)."""
        if self._file is not None:
            with explained_full_disk(self._path, lambda: 1000 * len(logs)):
                self._file.append_logs(logs)
        self._all += logs


def _direction(history: History) -> str:
    return "maximize" if history.mode == "max" else "minimize"


def _trial(history: History, number: int) -> FrozenTrial:
    """Converts a configuration to Optuna's trial with its state."""
    from optuna.trial import TrialState, create_trial

    coordinates = history.coordinates(number)
    ended = number in history.scores
    score = history.scores.get(number)
    trial = create_trial(
        state=TrialState.RUNNING if not ended else TrialState.FAIL if score is None else TrialState.COMPLETE,
        value=score,
        params={
            _name(dimension): _parameter(dimension, coordinate)
            for dimension, coordinate in zip(history.dimensions, coordinates, strict=True)
        },
        distributions=_distributions(history),
        user_attrs={
            dimension.name: history.configurations[number][dimension.location]
            for dimension in history.dimensions
            if dimension.space.kind.name == "normal"
        },
    )
    trial.datetime_start = datetime.fromtimestamp(history.began[number])
    trial.datetime_complete = datetime.fromtimestamp(history.ended[number]) if ended else None
    return trial


def _name(dimension: Dimension) -> str:
    """Parameter name in Optuna; normal distributions, which Optuna lacks, are represented by their quantiles."""
    return f"{dimension.name} (quantile)" if dimension.space.kind.name == "normal" else dimension.name


def _distributions(history: History) -> dict[str, BaseDistribution]:
    return {_name(dimension): _distribution(dimension) for dimension in history.dimensions}


def _distribution(dimension: Dimension) -> BaseDistribution:
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    if dimension.options:
        return CategoricalDistribution(_labels(dimension))
    if _counts(dimension):
        step = int(dimension.step)
        return IntDistribution(dimension.first * step, dimension.last * step, log=dimension.log, step=step)
    return FloatDistribution(dimension.low * dimension.step, dimension.high * dimension.step, log=dimension.log)


def _counts(dimension: Dimension) -> bool:
    """Whether a dimension is an integer distribution in Optuna.

    Multiples of a fraction, and numbers in steps that are tiny relative to their range, are rounded here: Optuna would
    divide floats by floats and take logarithms of 0. It has no logarithmic steps other than 1.
    """
    is_coarse = dimension.whole and dimension.last - dimension.first < 2**20
    return is_coarse and isinstance(dimension.step, int) and (dimension.step == 1 or not dimension.log)


def _parameter(dimension: Dimension, coordinate: float) -> Any:
    """Converts a coordinate to Optuna's parameter value."""
    if dimension.options:
        return _labels(dimension)[int(coordinate)]
    if _counts(dimension):
        return dimension.value(coordinate)
    number = dimension.value(coordinate) if dimension.whole else coordinate
    return min(max(number, dimension.low * dimension.step), dimension.high * dimension.step)


def _coordinate(dimension: Dimension, parameter: Any) -> float:
    """Converts Optuna's parameter value to a coordinate."""
    if dimension.options:
        return _labels(dimension).index(parameter)
    return parameter / dimension.step if dimension.whole else float(parameter)


def _labels(dimension: Dimension) -> tuple[str, ...]:
    """Distinct labels for the options, since Optuna accepts no lists and merges equal options."""
    labels: list[str] = []
    for option in dimension.options:
        text = option if isinstance(option, str) else as_text(option)
        while text in labels:
            text += "'"
        labels.append(text)
    return tuple(labels)
