"""Where a trial begins: with nothing, or where its newest checkpoint that can be used has left off."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rlrun.checkpoint.format import Content
from rlrun.checkpoint.store import RESULT_KEY, CheckpointStore, SkippedCheckpoint
from rlrun.config import ConfigModel
from rlrun.errors import CheckpointError, UsageError
from rlrun.explain import dotted, shown
from rlrun.functional.saved_numbers import as_count
from rlrun.spec.experiment import EvaluationConfig, TrialSpec
from rlrun.training.checkpointing import refusing, saved_training, update_executor_of
from rlrun.training.policies import Policies, schedules_of
from rlrun.training.training import Training
from rlrun.trial.checked_results import truncate_results
from rlrun.trial.exploit import GENERATION, Exploit
from rlrun.trial.resumption import Resumption
from rlrun.trial.trial_directory import TrialRecord


@dataclass(frozen=True)
class StartingPoint:
    """The checkpoint that a trial goes on from.

    Attributes:
        path: Its directory.
        content: What it holds.
        skipped: Newer checkpoints that cannot be used.
    """

    path: Path
    content: Content
    skipped: tuple[SkippedCheckpoint, ...]

    @classmethod
    def newest(cls, store: CheckpointStore) -> StartingPoint | None:
        """Returns the newest checkpoint of a trial that can be used, None if it has none at all.

        Raises:
            CheckpointError: If there are checkpoints, but none that can be used.
        """
        found = store.read_newest()
        return None if found is None else cls(*found)

    @property
    def generation(self) -> int:
        """The last generation of its population that the trial had carried out; 0 outside of populations.

        Raises:
            CheckpointError: If the checkpoint says something else than a number.
        """
        with refusing(GENERATION):
            return as_count(self.content.manifest.get(GENERATION, 0))

    @property
    def result(self) -> Mapping[str, Any]:
        """The result of its iteration, {} if it has none.

        Raises:
            CheckpointError: If it is none.
        """
        result = self.content.manifest.get(RESULT_KEY) or {}
        if not isinstance(result, dict) or any(isinstance(value, dict | list | tuple) for value in result.values()):
            raise CheckpointError(f"{self.path}: its {RESULT_KEY} is none")
        if result:
            with refusing(RESULT_KEY):
                for name in ("iteration", "env_steps"):
                    as_count(result[name])
        return result

    def trial(self, trial: TrialSpec, exploit: Exploit | None) -> TrialSpec:
        """Returns the trial as its training is built to load the checkpoint.

        Args:
            trial: The trial with the settings it has now.
            exploit: The last one of its population, None outside of populations. Where it is yet to be carried out with
                another's weights, the settings are still those that the checkpoint was made with.

        Raises:
            CheckpointError: If the trial's file says another seed, env, evaluation or other settings than the
                checkpoint was made with.
        """
        for metric in trial.stop:
            if not isinstance(self.result.get(metric), int | float | None):
                raise CheckpointError(f"{self.path}: its {RESULT_KEY} has {self.result[metric]!r:.80} as {metric}")
        before = saved_training(self.content, self.path, trust=True)
        self._refuse_other("", {"seed": before.seed}, {"seed": trial.seed})
        env = trial.env.replace(max_replay_s=before.env.max_replay_s)  # which bears on the resume alone
        self._refuse_other("env", before.env.to_data(), env.to_data())
        self._refuse_other("evaluation", self._evaluation(), _data_of(trial.evaluation))
        if exploit is None:
            self._refuse_other_settings(before.policies, trial.learns)
        elif exploit.parent is not None and exploit.generation > self.generation:
            return trial.with_learning(before.policies)
        return trial

    def ended_schedules(self, trial: TrialSpec) -> list[str]:
        """Says which schedules ended with the run as long as it was, and so do not follow it where it goes on longer.

        They cannot: that would change what was learned so far.

        Args:
            trial: The trial with the stop criteria it has now.
        """
        stop = self.content.spec.get("stop")
        sentences = []
        for policy, algorithm in trial.learns.algorithms.items():
            unit, place = algorithm.clock_unit, "config" if trial.learns.is_alone else f"policies.{policy}.config"
            length = stop.get(unit) if isinstance(stop, dict) else None
            if length is None or length == trial.stop.get(unit):
                continue
            sentences += [
                f"{place}.{name} ended at {schedule[-1][0]:,} {unit.replace('_', ' ')}, where the run was to stop, "
                f"and stays at {schedule[-1][1]:g} from there on"
                for name, schedule in schedules_of(algorithm.config).items()
                if isinstance(schedule, tuple) and schedule[-1][0] == length
            ]
        return sentences

    def _evaluation(self) -> dict[str, Any]:
        """Returns the evaluation that the checkpoint was made with, as plain data; {} for none.

        Raises:
            CheckpointError: If its spec says something else.
        """
        said = self.content.spec.get("evaluation")
        try:
            return _data_of(EvaluationConfig.parse(said) if said else None)
        except UsageError as error:
            raise CheckpointError(f"{self.path}: its spec is not one of a checkpoint: {error}") from error

    def _refuse_other_settings(self, before: Policies, now: Policies) -> None:
        """Refuses a trial whose settings were changed in its spec.yaml.

        Policies of a world may be added, and learn by another algorithm from here on.
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
        """Refuses a trial whose spec.yaml was changed: going on with it would be no continuation of the run."""
        for name in {**now, **made_with}:
            if name in now and name in made_with and now[name] == made_with[name]:
                continue
            path, said, was = dotted((place, name)), now.get(name), made_with.get(name)
            if isinstance(said, Mapping) and isinstance(was, Mapping):
                self._refuse_other(path, was, said)
            raise CheckpointError(
                f"the trial's spec.yaml says {path}: {shown(said)}, and {self.path} was made with {shown(was)}: put "
                f"the file back as it was, or begin another run with `rlrun train --from {self.path}`"
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
        """Brings a training to where the checkpoint is, and cuts off the results that came after it.

        Args:
            training: A training that has not been started, of the checkpoint's settings.
            directory: The trial's directory.
            store: Its checkpoints, which know some of its results.
            record: What trial.json knew before; None if it was not there.
            eager: Whether updates that were compiled may go on uncompiled.

        Raises:
            CheckpointError: If the checkpoint is of something else.
            CompilerMissing: If its updates were compiled, there is no compiler here, and `eager` is False.
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
            lost_compiler=update_executor_of(self.content.manifest) == "compiled" != training.update_executor,
            is_in_part=running.is_restored_in_part,
            unsaved=running.unsaved,
            damage=truncation.damage,
        )


def _data_of(evaluation: EvaluationConfig | None) -> dict[str, Any]:
    return {} if evaluation is None else evaluation.to_data()
