"""Ray Tune searcher that supplies a run's trials: first those in run.json, then suggestions from rlrun's searcher."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ray.tune.search import Searcher
from typing_extensions import override

from rlrun.engine.checkpoint.manifest import rlrun_version
from rlrun.experiments.cluster.resources import TrialResources
from rlrun.experiments.runs.active_run import ActiveRun
from rlrun.experiments.runs.events import TrialAdded
from rlrun.experiments.search.suggestions import Suggestions
from rlrun.experiments.spec.experiment import TrialSpec
from rlrun.experiments.trial.exploit import Exploit
from rlrun.experiments.trial.trial_training import with_update_executor


class TrialSource(Searcher):  # type: ignore[misc]  # ray has no types
    """Ray Tune searcher that supplies Tune with a run's trials.

    Args:
        run: The run.
        suggestions: Trials suggested by the run's searcher, or None.
        exploit_of: Function that returns a trial's last exploit step (PBT), or None if there is none.
    """

    def __init__(
        self,
        run: ActiveRun,
        suggestions: Suggestions | None,
        exploit_of: Callable[[TrialSpec], Exploit | None],
    ) -> None:
        super().__init__()
        self._run = run
        self._suggestions = suggestions
        self._exploit_of = exploit_of
        self._next = deque(run.trials)

    @override
    def __reduce__(self) -> tuple[type[Searcher], tuple[()]]:
        """Pickles as a plain `Searcher`: Tune saves its searchers, but this saved state is never loaded."""
        return (Searcher, ())

    @override
    def suggest(self, trial_id: str) -> dict[str, Any] | str | None:
        """Config of the next trial, None while other trials must end first, or `FINISHED` after the last trial."""
        if self._run.interrupts.received:
            return str(Searcher.FINISHED)
        if not self._next and self._suggestions is not None:
            if self._suggestions.is_over:
                return str(Searcher.FINISHED)
            if self._suggestions.running() >= self._places(self._suggestions):
                return None
            made: list[TrialSpec] = []
            with self._run.stopping_when_full():
                made = self._suggestions.next_trials()
            for trial in made:
                trial = with_update_executor(trial, self._run.why_no_kernels)
                self._run.trials.append(trial)
                self._next.append(trial)
                self._run.tell(TrialAdded(trial))
            for text in self._suggestions.notes() if made else []:
                self._run.note(made[0].name, text)
        if not self._next:
            return str(Searcher.FINISHED)
        trial = self._next.popleft()
        return trial_config(self._run, trial, self._exploit_of(trial))

    @override
    def on_trial_complete(self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False) -> None:
        pass  # `Reporter` passes the result to the run's searcher

    @override
    def save(self, checkpoint_path: str) -> None:
        Path(checkpoint_path).touch()  # the run's directory holds the state

    @override
    def restore(self, checkpoint_path: str) -> None:
        pass

    def _places(self, suggestions: Suggestions) -> float:
        """Maximum number of configurations that may run at once."""
        if suggestions.max_concurrent is not None:
            return suggestions.max_concurrent
        if not self._run.trials:
            return 1
        needs = TrialResources.of(self._run.trials[0])
        room = [self._run.capacity.get("CPU", 0.0) / needs.total_cpus]
        room += [self._run.capacity.get("GPU", 0.0) / needs.total_gpus] if needs.total_gpus else []
        return max(1.0, min(room) / len(self._run.experiment.seeds))


def trial_config(run: ActiveRun, trial: TrialSpec, exploit: Exploit | None) -> dict[str, Any]:
    """Config of `AlgorithmTrainable` for a trial: plain data that lets any process run the trial.

    Args:
        run: The run.
        trial: The trial with its initial settings.
        exploit: The trial's last exploit step (PBT), or None.
    """
    scheduler = run.experiment.scheduler
    population = None if scheduler is None else scheduler.population
    return {
        "trial": trial.to_data(),
        "run_directory": str(run.directory.path),
        "token": run.token,
        "disk": run.disk,
        "version": rlrun_version(),
        "eager": run.eager,
        "import_paths": list(sys.path),
        "interval": None if population is None else [population.interval, population.time_attr],
        "exploit": None if exploit is None else exploit.to_data(),
    }
