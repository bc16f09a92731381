"""Ray Tune Trainable for a trial: a thin adapter around `TrialLoop`.

The loop writes its own result files and checkpoints into the trial's directory; Tune gets only the result rows. A loop
is built at the first step, so an actor that Tune reuses for another trial keeps no state of the previous one.
"""

from __future__ import annotations

import gc
import json
import platform
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from ray.tune import PlacementGroupFactory, Trainable
from typing_extensions import override

from rlrun.engine.actors.actor_shell import Failure
from rlrun.engine.checkpoint.manifest import rlrun_version
from rlrun.engine.messages.errors import RlrunError, UsageError
from rlrun.engine.processes.signals import die_on_sigterm
from rlrun.experiments.cluster.resources import TrialResources
from rlrun.experiments.cluster.trial_place import TrialPlace, open_trial_place
from rlrun.experiments.runs.run_directory import follow_import_paths
from rlrun.experiments.spec.experiment import TrialSpec
from rlrun.experiments.trial.divergence import Diverged
from rlrun.experiments.trial.exploit import Exploit
from rlrun.experiments.trial.slow_iterations import slow_iterations_noted
from rlrun.experiments.trial.trial_directory import TrialDirectory
from rlrun.experiments.trial.trial_loop import TrialLoop

ROW = "row"
"""Key of the result row, as JSON text, in the results for Tune. Tune would keep statistics of plain numbers until the
sweep ends, 150 kB for each trial."""
AGAIN = "again"
"""Key in the results for Tune, present if no iteration was run and the row repeats the previous one."""
NOTES = "notes"
"""Key in the results for Tune: messages to the user, as a JSON list."""
DIVERGED = "diverged"
"""Key in the results for Tune: reason why a population member has diverged; the member waits for the next
generation."""


class TrialError(Exception):
    """Exception that carries a trial's failure from the trial's actor to the driver.

    Attributes:
        failure: The exception that the trial raised, in picklable form.
    """

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure)
        self.failure = failure

    @override
    def __str__(self) -> str:
        return self.failure.trace


class AlgorithmTrainable(Trainable):  # type: ignore[misc]  # ray has no types
    """Ray Tune Trainable that runs one trial at a time in Tune's actor, with one training iteration per step.

    The config is plain data that lets any process run the trial: `trial` (TrialSpec.to_data), `run_directory`, `token`
    and `disk` (arguments of `open_trial_place`), `version` (of the driver's rlrun), `eager` (see `TrialLoop`),
    `import_paths` (folders of the driver's `sys.path`), `interval` (for a population, the steps between two generations
    and the name of the metric that counts them; else None) and `exploit` (Exploit.to_data, or None). A trial resumes
    from the state in its directory.

    Besides Tune's own calls, the driver calls `apply_exploit`, `finish`, `pause` and `interrupt`. These calls run
    between two iterations, since an actor runs one method at a time.
    """

    @override
    def setup(self, config: dict[str, Any]) -> None:
        die_on_sigterm()
        self._loop: TrialLoop | None = None
        self._place: TrialPlace | None = None
        self._notes: list[str] = []
        self._is_stopping = False
        exploit = config["exploit"]
        self._exploit = None if exploit is None else Exploit.from_data(exploit)
        follow_import_paths(config["import_paths"])

    @override
    def step(self) -> dict[str, Any]:
        """Runs one training iteration of the trial.

        Returns:
            A dict with the result row under the key `ROW`, and `done`; only `done` if the run is being stopped or the
            trial was already done. A trial that has reached its next generation (PBT) repeats its last row, marked by
            the key `AGAIN`, until it receives an exploit step.

        Raises:
            TrialError: If the trial fails.
        """
        with self._failing():
            result = {"done": True} if self._is_stopping else self._step()
            if self._place is not None:
                if self._place.is_copied and self._loop is not None:
                    self._loop.checkpoints.wait()
                self._place.push()
            return result

    def _step(self) -> dict[str, Any]:
        loop = self._started()
        if loop.done:  # the trial was killed after its last checkpoint, before Tune got the last result
            self._close()
            return {"done": True, **self._taken_notes()}
        if self._awaits_exploit(loop):
            return {ROW: json.dumps(loop.last_result), AGAIN: True, **self._taken_notes()}
        assert self._place is not None
        try:
            with slow_iterations_noted(loop, self._place.write_progress):
                row = loop.step()
        except Diverged as error:
            if self.config["interval"] is None:
                raise
            files = TrialDirectory(loop.directory)
            if (record := files.read_record()) is not None:
                files.write_record(replace(record, status="PAUSED"))  # not failed: it continues as another's copy
            self._close()
            return {DIVERGED: str(error), **self._taken_notes()}
        if self._awaits_exploit(loop) and not loop.done:
            loop.save()  # once the driver has this result, another member may copy this state
        if loop.done:
            self._close()  # before the notes are taken, which include the loggers' final warnings
        return {"done": loop.done, ROW: json.dumps(row), **self._taken_notes()}

    def apply_exploit(self, exploit: dict[str, Any]) -> None:
        """Accepts an exploit-and-explore step that the trial's population has decided; the next `step` performs it."""
        self._exploit = Exploit.from_data(exploit)

    def finish(self, reason: str) -> None:
        """Ends the trial permanently, as a scheduler has decided, and saves a checkpoint."""
        if self._loop is not None:
            self._loop.finish(reason)
        self._close()

    def pause(self) -> None:
        """Saves the trial and releases its directory; the trial can continue in another process.

        Raises:
            TrialError: If the trial cannot be saved.
        """
        with self._failing():
            if self._loop is not None:
                self._loop.pause()
            self._leave()

    def interrupt(self) -> None:
        """Saves the trial after a user's interrupt and ends it in this process; a resumed run continues it.

        The next `step` returns `done`.
        """
        self._is_stopping = True
        if self._loop is not None and not self._loop.done:
            self._loop.interrupt()
        self._close()

    @override
    def reset_config(self, new_config: dict[str, Any]) -> bool:
        self.pause()
        gc.collect()  # a `Training` has reference cycles, which Python would keep for a hundred trials or so
        self.setup(new_config)
        return True

    @override
    def cleanup(self) -> None:
        self.pause()

    @override
    @classmethod
    def default_resource_request(cls, config: dict[str, Any]) -> PlacementGroupFactory:
        return _placement(TrialResources.of(TrialSpec.from_data(config["trial"])))

    def _awaits_exploit(self, loop: TrialLoop) -> bool:
        """Whether the trial has reached a generation of its population for which it has no exploit yet."""
        if self.config["interval"] is None:
            return False
        interval, counter = self.config["interval"]
        known = 0 if self._exploit is None else self._exploit.generation
        return int((loop.last_result.get(counter) or 0) // interval) > known

    def _started(self) -> TrialLoop:
        """Training loop of the trial, built or resumed at the first call; carries out a new exploit."""
        if self._loop is None:
            require_version(self.config["version"])
            place = self._place = open_trial_place(
                Path(self.config["run_directory"]),
                self.config["trial"]["name"],
                self.config["token"],
                self.config["disk"],
            )
            self._loop = TrialLoop(
                TrialSpec.from_data(self.config["trial"]) if self._exploit is None else self._exploit.trial,
                place.directory,
                resume=True,
                exploit=None if self._exploit is None else self._fetched(self._exploit),
                eager=self.config["eager"],
                announce=lambda text: self._notes.append(place.with_driver_paths(text)),
            )
            resumption = self._loop.resumption
            if resumption is not None and not (self._loop.was_paused and resumption.is_exact):
                self._notes.append(place.with_driver_paths(resumption.message))
            # Tune sums the iterations' seconds itself; a resumed trial starts from its earlier total.
            self._time_total = self._loop.last_result.get("time_total_s") or 0.0
        elif self._exploit is not None and self._exploit.generation > self._loop.generation:
            self._loop.apply_exploit(self._fetched(self._exploit))
        return self._loop

    def _fetched(self, exploit: Exploit) -> Exploit:
        """Exploit with the parent's checkpoint copied to this machine if necessary."""
        if self._place is None or exploit.parent is None:
            return exploit
        return replace(exploit, parent=self._place.fetch(exploit.parent))

    def _taken_notes(self) -> dict[str, str]:
        notes, self._notes = self._notes, []
        return {NOTES: json.dumps(notes)} if notes else {}

    @contextmanager
    def _failing(self) -> Iterator[None]:
        """Context manager that releases the trial after an exception, and reraises a picklable `TrialError`.

        Raises:
            TrialError: If the trial fails.
        """
        try:
            yield
        except Exception as error:
            failure = Failure.of(error)
            if self._place is not None:
                rewrite = self._place.with_driver_paths
                failure = replace(failure, message=rewrite(failure.message), trace=rewrite(failure.trace))
            with suppress(RlrunError):  # the first error is the one to report
                self._close()
            raise TrialError(failure) from None

    def _close(self) -> None:
        if self._loop is not None:
            self._loop.close()
        self._leave()

    def _leave(self) -> None:
        """Copies the last changes into the run's directory, and releases the trial's claim and directory."""
        self._loop = None
        place, self._place = self._place, None
        if place is not None:
            try:
                place.push()
            finally:
                place.close()


@lru_cache(maxsize=16)
def _placement(resources: TrialResources) -> PlacementGroupFactory:
    """Placement group of a trial; trials with equal resources share one object, since Tune caches one per trial."""
    return PlacementGroupFactory(resources.bundles())


def require_version(version: str) -> None:
    """Raises an error if the driver's rlrun version differs from this machine's.

    Raises:
        UsageError: If the versions differ.
    """
    if version != rlrun_version():
        raise UsageError(
            f"{platform.node()} has rlrun {rlrun_version()}, but the driver has {version}: install the same "
            "version on all machines"
        )
