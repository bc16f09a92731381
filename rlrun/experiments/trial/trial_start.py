"""Start of a trial: from its newest checkpoint, from another run's weights, or with newly initialized weights."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rlrun.engine.checkpoint.format import Content, read_checkpoint
from rlrun.engine.checkpoint.store import RESULT_KEY, CheckpointStore, SkippedCheckpoint
from rlrun.engine.envs.running_statistics import statistics_wrappers
from rlrun.engine.envs.step_marks import enable_step_marks, stepped_env
from rlrun.engine.functional.saved_numbers import as_count
from rlrun.engine.messages.errors import CheckpointError, UsageError
from rlrun.engine.messages.explain import dotted, shown
from rlrun.engine.settings.config import ConfigModel
from rlrun.engine.settings.registry import load_internal
from rlrun.engine.training.assemble.policies import Policies, clock_unit_of, schedules_of
from rlrun.engine.training.save import saved_state
from rlrun.engine.training.save.checkpointing import has_other_kernels, refusing, saved_training, update_executor_of
from rlrun.engine.training.training import Training
from rlrun.experiments.spec.experiment import EvaluationConfig, TrialSpec
from rlrun.experiments.trial.checked_results import truncate_results
from rlrun.experiments.trial.exploit import GENERATION, Exploit
from rlrun.experiments.trial.results import json_row
from rlrun.experiments.trial.resumption import Resumption, ending_in_words
from rlrun.experiments.trial.trial_directory import TrialRecord
from rlrun.experiments.trial.trial_journal import TrialJournal
from rlrun.experiments.trial.trial_training import record_to, training_of


class TrialStart:
    """Start of a trial in two steps: `training` builds the `Training`, and `restore` loads its state.

    Attributes:
        point: The checkpoint from which the trial resumes; None if it starts without one.
        was_paused: Whether the trial was paused before.
    """

    def __init__(self, trial: TrialSpec, journal: TrialJournal, *, resume: bool, from_checkpoint: Path | None) -> None:
        """Reads the trial's files, and writes trial.json and spec.yaml for the start.

        Args:
            trial: The trial.
            journal: The trial's journal.
            resume: Whether to resume from the newest valid checkpoint, if there is one.
            from_checkpoint: A checkpoint of another run, with whose weights and filters a new trial starts.

        Raises:
            CheckpointError: There are checkpoints, but none is usable.
        """
        files = journal.files
        self._trial = trial
        self._journal = journal
        self._before = before = files.read_record() if resume else None
        self._stepped = stepped_env(files.path)
        enable_step_marks(files.path)
        if before is not None:
            from_checkpoint = None if before.from_checkpoint is None else Path(before.from_checkpoint)
            journal.record = replace(journal.record, exact_resume=before.exact_resume, output=before.output)
        self.was_paused = before is not None and before.status == "PAUSED"
        self._from_checkpoint = from_checkpoint
        start = None if from_checkpoint is None else str(from_checkpoint.absolute())
        journal.record = replace(journal.record, from_checkpoint=start)
        files.write_spec(journal.spec)
        files.clear_error()
        journal.write_record()
        self.point = StartingPoint.newest(journal.checkpoints.store) if resume else None

    def training(self, exploit: Exploit | None, *, eager: bool) -> Training:
        """Builds the `Training` with the settings needed to load its checkpoint; starts neither processes nor envs.

        Args:
            exploit: The trial's last exploit step (PBT); None if the trial is in no population.
            eager: Whether compiled updates may continue uncompiled on a machine without a compiler.

        Raises:
            CheckpointError: The trial's settings differ from those of its checkpoint.
            CompilerMissing: The trial's updates need a compiler, this machine has none, and `eager` is False.
        """
        trial = self._trial if self.point is None else self.point.trial(self._trial, exploit)
        return training_of(trial, self._journal.note, eager=eager)

    def restore(self, training: Training, *, eager: bool) -> Resumption | None:
        """Loads the state from which training starts, and removes result rows of later iterations.

        Args:
            training: The `Training` that the method `training` built.
            eager: Whether compiled updates may continue uncompiled on a machine without a compiler.

        Returns:
            Report on the resumption; None for a new trial.

        Raises:
            CheckpointError: The checkpoint does not fit the `Training`.
            UsageError: The folder for the trial's data set contains other files.
        """
        trial, journal, before = self._trial, self._journal, self._before
        if trial.output is not None:
            record_to(training, Path(trial.output), begun=journal.record.output, from_start=self.point is None)
            journal.record = replace(journal.record, output=trial.output)
            journal.write_record()
        resumption = self._begin(training) if self.point is None else self._resume(training, self.point, eager=eager)
        if trial.begins is not None and trial.begins.weights and trial.begins.filters == "frozen":
            saved_state.freeze_filters(training.running)
        if resumption is not None and before is not None and before.status == "RUNNING":
            steps_envs = trial.config.num_workers == 0
            crash = ending_in_words("the previous process was killed or crashed", self._stepped, steps_envs=steps_envs)
            resumption = replace(resumption, crash=crash)
        return resumption

    def _begin(self, training: Training) -> Resumption | None:
        """Starts without a checkpoint of the trial: with new weights, or with those of another run or stage."""
        before, begins = self._before, self._trial.begins
        cut = truncate_results(self._journal.files.path, after_iteration=0)
        if self._from_checkpoint is not None:
            content, optimizers = read_checkpoint(self._from_checkpoint), begins is not None and begins.optimizers
            saved_state.load_weights(training.running, content, in_part=begins is not None, optimizers=optimizers)
        if cut.rows_cut or (before is not None and before.status != "PENDING"):
            return Resumption(None, rows_cut=cut.rows_cut, damage=cut.damage)
        return None

    def _resume(self, training: Training, point: StartingPoint, *, eager: bool) -> Resumption:
        """Resumes from a checkpoint of the trial."""
        journal = self._journal
        store = journal.checkpoints.store
        resumption = point.restore(training, journal.files.path, store, record=self._before, eager=eager)
        if lost := statistics_wrappers(self._trial.env):
            clause = f"checkpoints do not contain the statistics of {' and '.join(lost)}"
            resumption = replace(resumption, unsaved=(*resumption.unsaved, clause))
        journal.checkpoints.note(point.path, training.iteration)
        for sentence in point.ended_schedules(self._trial):
            journal.note(sentence)
        journal.last_result = json_row(point.result)
        was_exact = journal.record.exact_resume is not False
        journal.record = replace(journal.record, exact_resume=was_exact and resumption.is_exact)
        return resumption


CHANGED_FILES = "rlrun.engine.settings.sources:changed_files"
"""Import path of the function that compares users' own modules, for trials that use some."""


@dataclass(frozen=True)
class StartingPoint:
    """Checkpoint from which a trial resumes.

    Attributes:
        path: Directory of the checkpoint.
        content: Content of the checkpoint.
        skipped: Newer checkpoints that cannot be used.
    """

    path: Path
    content: Content
    skipped: tuple[SkippedCheckpoint, ...]

    @classmethod
    def newest(cls, store: CheckpointStore) -> StartingPoint | None:
        """Selects the newest usable checkpoint of a trial; None if there are no checkpoints.

        Raises:
            CheckpointError: There are checkpoints, but none is usable.
        """
        found = store.read_newest()
        return None if found is None else cls(*found)

    @property
    def generation(self) -> int:
        """Last population generation (PBT) that the trial carried out; 0 if it is in no population.

        Raises:
            CheckpointError: The generation stored in the checkpoint is not a number.
        """
        with refusing(GENERATION):
            return as_count(self.content.manifest.get(GENERATION, 0))

    @property
    def result(self) -> Mapping[str, Any]:
        """Result of the checkpoint's iteration; {} if the checkpoint holds none.

        Raises:
            CheckpointError: The result stored in the checkpoint is malformed.
        """
        result = self.content.manifest.get(RESULT_KEY) or {}
        if not isinstance(result, dict) or any(isinstance(value, dict | list | tuple) for value in result.values()):
            raise CheckpointError(f"{self.path}: its {RESULT_KEY} is not a result")
        if result:
            with refusing(RESULT_KEY):
                for name in ("iteration", "env_steps"):
                    as_count(result[name])
        return result

    def trial(self, trial: TrialSpec, exploit: Exploit | None) -> TrialSpec:
        """Copies a trial with the settings that are required to load the checkpoint.

        Args:
            trial: The trial with its current settings.
            exploit: The trial's last exploit step (PBT); None if the trial is in no population. If the step is pending
                and copies another trial's weights, the returned settings are those of the checkpoint.

        Raises:
            CheckpointError: The trial's spec.yaml differs from the checkpoint in seed, env, evaluation or settings.
        """
        for metric in trial.stop.bounds:
            if not isinstance(self.result.get(metric), int | float | None):
                raise CheckpointError(
                    f"{self.path}: its {RESULT_KEY} has the invalid value {self.result[metric]!r:.80} for {metric}"
                )
        before = saved_training(self.content, self.path, trust=True)
        self._refuse_other("", {"seed": before.seed}, {"seed": trial.seed})
        env = trial.env.replace(max_replay_s=before.env.max_replay_s)  # the setting only affects how trials are resumed
        self._refuse_other("env", before.env.to_data(), env.to_data())
        self._refuse_other("evaluation", self._evaluation(), _data_of(trial.evaluation))
        if exploit is None:
            self._refuse_other_settings(before.policies, trial.learns)
        elif exploit.parent is not None and exploit.generation > self.generation:
            return trial.with_learning(before.policies)
        return trial

    def ended_schedules(self, trial: TrialSpec) -> list[str]:
        """Messages about schedules that end at the run's original length, and are not stretched to its new length.

        A schedule stretched to the new length would contradict the training so far.

        Args:
            trial: The trial with its current stop criteria.
        """
        stop = self.content.spec.get("stop")
        sentences = []
        for policy, algorithm in trial.learns.algorithms.items():
            unit, place = clock_unit_of(algorithm), "config" if trial.learns.is_alone else f"policies.{policy}.config"
            length = stop.get(unit) if isinstance(stop, dict) else None
            if length is None or length == trial.stop.bounds.get(unit):
                continue
            sentences += [
                (
                    f"{place}.{name}: the schedule ended at {schedule[-1][0]:,} {unit.replace('_', ' ')}, the "
                    f"original end of the run, and stays at {schedule[-1][1]:g} after that"
                )
                for name, schedule in schedules_of(algorithm.config).items()
                if isinstance(schedule, tuple) and schedule[-1][0] == length
            ]
        return sentences

    def _evaluation(self) -> dict[str, Any]:
        """Evaluation settings in the checkpoint's spec, as plain data; {} without evaluations.

        Raises:
            CheckpointError: The spec's entry is not a mapping.
        """
        written = self.content.spec.get("evaluation")
        try:
            return _data_of(EvaluationConfig.parse(written) if written else None)
        except UsageError as error:
            raise CheckpointError(f"{self.path}: the checkpoint's spec is invalid: {error}") from error

    def _refuse_other_settings(self, before: Policies, now: Policies) -> None:
        """Raises an error if settings in a trial's spec.yaml differ from those in the checkpoint.

        Policies of a multi-agent world may be added, and may change their algorithm.
        """
        pairs: list[tuple[str, ConfigModel, ConfigModel]]
        pairs = [("config", before.sampling, now.sampling)] if not now.is_alone else []
        for policy, algorithm in now.algorithms.items():
            its = before.algorithms.get(policy)
            if its is not None and type(its) is type(algorithm):
                place = "config" if now.is_alone else f"policies.{policy}.config"
                pairs.append((place, its.config, algorithm.config))
        pairs += [(f"seats.{seat}", before.seats[seat], now.seats[seat]) for seat in now.seats if seat in before.seats]
        if before.seats and now.seats:
            pairs.append(("league", before.league, now.league))
        for place, earlier, present in pairs:
            self._refuse_other(place, earlier.to_data(), present.to_data())

    def _refuse_other(self, place: str, made_with: Mapping[str, Any], now: Mapping[str, Any]) -> None:
        """Raises an error for a trial with a changed spec.yaml, which could not continue the run."""
        for name in {**now, **made_with}:
            if name in now and name in made_with and now[name] == made_with[name]:
                continue
            path, present, former = dotted((place, name)), now.get(name), made_with.get(name)
            if isinstance(present, Mapping) and isinstance(former, Mapping):
                self._refuse_other(path, former, present)
            raise CheckpointError(
                f"the trial's spec.yaml has {path}: {shown(present)}, but {self.path} was written with "
                f"{shown(former)}: restore the file, or start a new run with `rlrun train --from {self.path}`"
            )

    def restore(
        self,
        training: Training,
        directory: Path,
        store: CheckpointStore,
        *,
        record: TrialRecord | None,
        eager: bool,
    ) -> Resumption:
        """Restores a `Training` from the checkpoint, and removes results of later iterations.

        Args:
            training: A `Training` with the checkpoint's settings, not started yet.
            directory: The trial's directory.
            store: The trial's checkpoints, which contain some result rows.
            record: The previous content of trial.json; None if it did not exist.
            eager: Whether compiled updates may continue uncompiled on a machine without a compiler.

        Raises:
            CheckpointError: The checkpoint does not fit the `Training`.
            CompilerMissing: The trial's updates need a compiler, this machine has none, and `eager` is False.
        """
        training.load(self.content, eager=eager)
        running = training.running
        own = {training.iteration: self.result} if self.result else {}
        truncation = truncate_results(directory, training.iteration, known={**store.results(), **own}, record=record)
        return Resumption(
            self.path,
            training.iteration,
            self.skipped,
            truncation.rows_cut,
            running.env_slots_restarted,
            other_executor=update_executor_of(self.content.manifest) != training.update_executor,
            other_kernels=has_other_kernels(self.content.manifest, training.update_executor),
            changed_files=self._changed_files(),
            unsaved=running.unsaved,
            damage=truncation.damage,
        )

    def _changed_files(self) -> tuple[str, ...]:
        """Returns the files of users' own modules that have changed since the checkpoint."""
        with refusing("sources"):
            recorded = dict(self.content.manifest.get("sources", {}))
            changed: tuple[str, ...] = load_internal(CHANGED_FILES)(recorded) if recorded else ()
        return changed


def _data_of(evaluation: EvaluationConfig | None) -> dict[str, Any]:
    return {} if evaluation is None else evaluation.to_data()
