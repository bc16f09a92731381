"""What Ray Tune runs for a trial: a thin adapter of `TrialLoop`.

The loop writes its own result files and checkpoints into the trial's directory; Tune only hears the numbers. A loop is
built with the first step, so that an actor which Tune hands from one trial to the next has nothing to take over.
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

from rlrun.actors.actor_shell import Failure
from rlrun.checkpoint.manifest import rlrun_version
from rlrun.cluster.resources import TrialResources
from rlrun.cluster.trial_place import TrialPlace, open_place
from rlrun.errors import RlrunError, UsageError
from rlrun.runs.run_directory import follow_import_paths
from rlrun.spec.experiment import TrialSpec
from rlrun.trial.divergence import Diverged
from rlrun.trial.exploit import Exploit
from rlrun.trial.trial_directory import TrialDirectory
from rlrun.trial.trial_loop import TrialLoop

ROW = "row"
"""Key in what Tune hears under which the trial's result stands, as JSON. Of numbers by name Tune would keep statistics
until the sweep ends: 150 kB for each trial."""
AGAIN = "again"
"""Key that is there if nothing new was done, and the result is the one before."""
NOTES = "notes"
"""Key under which stands what the user should read: a JSON list of sentences."""
DIVERGED = "diverged"
"""Key under which stands why a trial of a population has diverged; it waits for its next generation."""


class TrialError(Exception):
    """Carries what ended a trial from its actor to the driver.

    Attributes:
        failure: What the trial raised.
    """

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure)
        self.failure = failure

    def __str__(self) -> str:
        return self.failure.trace


class AlgorithmTrainable(Trainable):  # type: ignore[misc]  # ray has no types
    """Runs one trial at a time in Tune's actor, an iteration per step.

    Its config is plain data from which any process can run the trial: `trial` (TrialSpec.to_data), `run_directory`,
    `token` and `disk` (as `open_place` takes them), `version` (of the driver's rlrun), `eager` (see `TrialLoop`),
    `import_paths` (folders of the driver's `sys.path`), `interval_env_steps` (in a population: the distance of its
    generations, else None) and `orders` (Exploit.to_data, or None). A trial goes on from what its directory holds.

    Besides Tune the driver itself calls `take_exploit`, `finish`, `pause` and `interrupt`; they are carried out between
    two iterations, since an actor does one thing at a time.
    """

    def setup(self, config: dict[str, Any]) -> None:
        """Takes a trial; nothing of it is built before its first step."""
        self._loop: TrialLoop | None = None
        self._place: TrialPlace | None = None
        self._notes: list[str] = []
        self._is_stopping = False
        exploit = config["exploit"]
        self._exploit = None if exploit is None else Exploit.from_data(exploit)
        follow_import_paths(config["import_paths"])

    def step(self) -> dict[str, Any]:
        """Runs one iteration.

        Returns:
            The result under `ROW`, and whether the trial is done. Once the run is being stopped, or if the trial was
            done before: only that. A trial that has reached its next generation repeats its last result, with `AGAIN`,
            until it has an exploit.

        Raises:
            TrialError: If the trial fails.
        """
        with self._failing():
            heard = {"done": True} if self._is_stopping else self._step()
            if self._place is not None:
                if self._place.is_copied and self._loop is not None:
                    self._loop.wait_until_saved()
                self._place.push()
            return heard

    def _step(self) -> dict[str, Any]:
        loop = self._started()
        if loop.done:  # killed behind its last checkpoint, before it could say that it was done
            self._close()
            return {"done": True, **self._taken_notes()}
        if self._awaits_orders(loop):
            return {ROW: json.dumps(loop.last_result), AGAIN: True, **self._taken_notes()}
        try:
            row = loop.step()
        except Diverged as error:
            if self.config["interval_env_steps"] is None:
                raise
            files = TrialDirectory(loop.directory)
            if (record := files.read_record()) is not None:
                files.write_record(replace(record, status="PAUSED"))  # no failure: it goes on from another member
            self._close()
            return {DIVERGED: str(error), **self._taken_notes()}
        if self._awaits_orders(loop) and not loop.done:
            loop.save()  # another may be told to go on from here as soon as the driver has heard of it
        if loop.done:
            self._close()  # what its loggers complain of at the end is among the notes then
        return {"done": loop.done, ROW: json.dumps(row), **self._taken_notes()}

    def take_exploit(self, exploit: dict[str, Any]) -> None:
        """Takes what the trial's population wants of it; it is carried out with the next step."""
        self._exploit = Exploit.from_data(exploit)

    def finish(self, reason: str) -> None:
        """Ends the trial for good, as a scheduler wants it, and keeps what it has learned."""
        if self._loop is not None:
            self._loop.finish(reason)
        self._close()

    def pause(self) -> None:
        """Saves the trial and lets go of it; it goes on later, maybe in another process.

        Raises:
            TrialError: If it cannot be saved.
        """
        with self._failing():
            if self._loop is not None:
                self._loop.pause()
            self._leave()

    def interrupt(self) -> None:
        """Saves the trial and ends it for now, as the user wants; the next step says that it is done."""
        self._is_stopping = True
        if self._loop is not None and not self._loop.done:
            self._loop.interrupt()
        self._close()

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        """Takes another trial; nothing of the one before is left.

        An algorithm, with all its tensors, is a web of objects that refer to one another. Left alone, Python would
        come to it when about a hundred trials had passed.
        """
        self.pause()
        gc.collect()
        self.setup(new_config)
        return True

    def cleanup(self) -> None:
        """Saves the trial and lets go of it, when Tune ends the actor."""
        self.pause()

    @classmethod
    def default_resource_request(cls, config: dict[str, Any]) -> PlacementGroupFactory:
        """Asks for the trial's own process first, and for a bundle for each of its workers."""
        return _placement(TrialResources.of(TrialSpec.from_data(config["trial"])))

    def _awaits_orders(self, loop: TrialLoop) -> bool:
        """Whether the trial has come to a generation of its population that it has no exploit for yet."""
        interval = self.config["interval_env_steps"]
        if interval is None:
            return False
        known = 0 if self._exploit is None else self._exploit.generation
        return int((loop.last_result.get("env_steps") or 0) // interval) > known

    def _started(self) -> TrialLoop:
        """Builds the trial, or brings it back, when it is first needed; carries out an exploit that has come since."""
        if self._loop is None:
            demand_version(self.config["version"])
            place = self._place = open_place(
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
            # Tune adds up the seconds of iterations itself; a trial that goes on has some behind it.
            self._time_total = self._loop.last_result.get("time_total_s") or 0.0
        elif self._exploit is not None and self._exploit.generation > self._loop.generation:
            self._loop.take_exploit(self._fetched(self._exploit))
        return self._loop

    def _fetched(self, exploit: Exploit) -> Exploit:
        """Returns an exploit with the parent's checkpoint where this process finds it."""
        if self._place is None or exploit.parent is None:
            return exploit
        return replace(exploit, parent=self._place.fetch(exploit.parent))

    def _taken_notes(self) -> dict[str, str]:
        notes, self._notes = self._notes, []
        return {NOTES: json.dumps(notes)} if notes else {}

    @contextmanager
    def _failing(self) -> Iterator[None]:
        """Lets go of the trial where it fails, and raises what the driver can tell the user.

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
            with suppress(RlrunError):  # what went wrong first is what the user must hear of
                self._close()
            raise TrialError(failure) from None

    def _close(self) -> None:
        if self._loop is not None:
            self._loop.close()
        self._leave()

    def _leave(self) -> None:
        """Brings the run's directory in step for the last time, and lets go of the trial's."""
        self._loop = None
        place, self._place = self._place, None
        if place is not None:
            try:
                place.push()
            finally:
                place.close()


@lru_cache(maxsize=16)
def _placement(resources: TrialResources) -> PlacementGroupFactory:
    """Returns what Tune asks Ray for; trials of the same needs share it, since Tune keeps that of every trial."""
    return PlacementGroupFactory(resources.bundles())


def demand_version(version: str) -> None:
    """Refuses to run trials for a driver with another rlrun than this machine's.

    Raises:
        UsageError: If the versions differ.
    """
    if version != rlrun_version():
        raise UsageError(
            f"{platform.node()} has rlrun {rlrun_version()} and the driver {version}: install the same on all machines"
        )
