"""What Ray Tune runs for a trial: a thin adapter of `TrialLoop`.

The loop writes its own result files and checkpoints into the trial's directory; Tune only hears the numbers. A loop is
built with the first step, so that an actor which Tune hands from one trial to the next has nothing to take over.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ray.tune import PlacementGroupFactory, Trainable

from rlrun.rollout.actor import Failure
from rlrun.spec.experiment import TrialSpec
from rlrun.trial.trial_loop import TrialLoop
from rlrun.tune.resources import TrialResources
from rlrun.tune.run_directory import follow_import_paths

ROW = "row"
"""Key in what Tune hears under which the trial's result stands as it is, as JSON."""
NOTES = "notes"
"""Key under which stands what the user should read: a JSON list of sentences."""


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
    `resume`, `from_checkpoint`, `eager` (as `TrialLoop` takes them), `stop_file` (where it exists, trials save and
    stop) and `import_paths` (folders of the driver's `sys.path`).
    """

    def setup(self, config: dict[str, Any]) -> None:
        """Takes a trial; nothing of it is built before its first step."""
        self._loop: TrialLoop | None = None
        self._notes: list[str] = []
        follow_import_paths(config["import_paths"])

    def step(self) -> dict[str, Any]:
        """Runs one iteration.

        Returns:
            The metrics as numbers, NaN for those the trial does not have yet; the result itself under `ROW`; and
            whether the trial is done. Once the run is being stopped, or if the trial was done before: only that.

        Raises:
            TrialError: If the trial fails.
        """
        try:
            if self._is_stopping:
                self._end()
                return {"done": True}
            loop = self._started()
            if loop.done:  # killed behind its last checkpoint, before it could say that it was done
                self._end()
                return {"done": True, NOTES: json.dumps(self._notes)}
            row = loop.step()
            heard = {**metrics_for_tune(row), "done": loop.done, ROW: json.dumps(row), NOTES: json.dumps(self._notes)}
            self._notes = []
            if loop.done:
                self._end()
        except Exception as error:
            self._close()
            raise TrialError(Failure.of(error)) from None
        return heard

    def save_checkpoint(self, checkpoint_dir: str) -> None:
        """Saves the trial where Tune asks for it, so that another one can go on from there."""
        self._started().save(Path(checkpoint_dir))

    def load_checkpoint(self, checkpoint: str) -> None:
        """Goes on from what `save_checkpoint` wrote."""
        self._started().load(Path(checkpoint), eager=self.config["eager"])

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        """Takes another trial; nothing of the one before is left."""
        self._end()
        self.setup(new_config)
        return True

    def cleanup(self) -> None:
        """Ends the trial when Tune stops it, and keeps what it has learned."""
        self._end()

    @classmethod
    def default_resource_request(cls, config: dict[str, Any]) -> PlacementGroupFactory:
        """Asks for the trial's own process first, and for a bundle for each of its workers."""
        return PlacementGroupFactory(TrialResources.of(TrialSpec.from_data(config["trial"])).bundles())

    @property
    def _is_stopping(self) -> bool:
        return Path(self.config["stop_file"]).exists()

    def _started(self) -> TrialLoop:
        """Builds the trial, or brings it back, when it is first needed."""
        if self._loop is None:
            start = self.config["from_checkpoint"]
            self._loop = TrialLoop(
                TrialSpec.from_data(self.config["trial"]),
                Path(self.config["run_directory"]) / self.config["trial"]["name"],
                resume=self.config["resume"],
                from_checkpoint=None if start is None else Path(start),
                eager=self.config["eager"],
                announce=self._notes.append,
            )
            if self._loop.resumption is not None:
                self._notes.append(self._loop.resumption.message)
            # Tune adds up the seconds of iterations itself; a trial that goes on has some behind it.
            self._time_total = self._loop.last_result.get("time_total_s") or 0.0
        return self._loop

    def _end(self) -> None:
        """Ends the trial: for now if the run is being stopped, else for good, as it is done or a scheduler wants it."""
        if self._loop is not None and not self._loop.done:
            if self._is_stopping:
                self._loop.interrupt()
            else:
                self._loop.finish("the scheduler stopped it")
        self._close()

    def _close(self) -> None:
        if self._loop is not None:
            self._loop.close()
            self._loop = None


def metrics_for_tune(row: Mapping[str, Any]) -> dict[str, float]:
    """Returns a result's numbers as schedulers take them: always there, NaN where there is none yet.

    Examples:
        >>> metrics_for_tune({"env_steps": 64, "episode_return_mean": None})
        {'env_steps': 64, 'episode_return_mean': nan}
    """
    return {name: math.nan if value is None else value for name, value in row.items()}
