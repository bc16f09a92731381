"""Data sets to which a run writes the steps that it collects, one for each policy."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rlrun.engine.datasets.layout import LOGP, LOGP_FORM, ColumnForm
from rlrun.engine.datasets.notes import env_note
from rlrun.engine.datasets.writer import SetWriter, remove_data_set
from rlrun.engine.messages.errors import DataSetError, UsageError

if TYPE_CHECKING:
    from rlrun.engine.envs.env_config import EnvConfig
    from rlrun.engine.flow.trainee import Trainee
    from rlrun.engine.rollout.raw_rows import RawRows
    from rlrun.engine.rollout.rollout import Rollout

ENV_COLUMN = ColumnForm(np.dtype(np.float32))
"""Dtype and shape of the columns that the env's config names."""


def begin_output(folder: Path, *, is_own: bool) -> None:
    """Creates the folder to which a run writes its data sets.

    Args:
        folder: The folder.
        is_own: Whether data sets in an existing folder belong to this run; if so, they are removed.

    Raises:
        UsageError: The folder exists, but does not belong to the run.
    """
    if is_own:
        for path in (folder, *(folder.iterdir() if folder.is_dir() else ())):
            remove_data_set(path)
    elif folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(f"output: {folder} already exists: choose another folder for the new data set")
    folder.mkdir(parents=True, exist_ok=True)


class RunOutput:
    """Writes a run's collected steps to data sets: one per policy, or a single one in the folder itself.

    Rollouts are written in the order in which they are received, so that an exactly resumed run writes the same bytes.

    Args:
        folder: Folder of the data set, or parent folder of several policies' data sets.
        env: The env, whose name the data sets record.
        trainees: Policies in training, by name.
    """

    def __init__(self, folder: Path, env: EnvConfig, trainees: Mapping[str, Trainee]) -> None:
        self._folder = folder
        self._env = env
        self._trainees = trainees
        self._writers: dict[str, SetWriter] = {}

    def record(self, rollout: Rollout) -> None:
        """Writes the steps of a fragment to the data sets.

        Raises:
            UsageError: The folder has other contents.
            OutOfResources: The disk is full.
        """
        for policy, raw in rollout.raw.items():
            if policy not in self._trainees:  # a seat, in which frozen opponents act
                continue
            if policy not in self._writers:
                self._writers[policy] = self._writer(policy, has_log_probs=LOGP in raw.columns)
            _add(self._writers[policy], raw, rollout.worker_index)

    def _writer(self, policy: str, *, has_log_probs: bool) -> SetWriter:
        further = dict.fromkeys(self._env.columns, ENV_COLUMN) | ({LOGP: LOGP_FORM} if has_log_probs else {})
        about = {"env": env_note(self._env.model_dump(mode="json", exclude_defaults=True))}
        folder = self._folder if len(self._trainees) == 1 else self._folder / policy
        return SetWriter(folder, *self._trainees[policy].spaces, further=further, about=about)

    def state(self) -> dict[str, Any]:
        """Returns the write positions in the data sets and the steps of episodes in progress, for checkpoints."""
        return {
            policy: {"has_log_probs": LOGP in writer.further, "set": writer.state()}
            for policy, writer in self._writers.items()
        }

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Restores the write positions in the data sets from `state()`; removes data that was written later.

        Raises:
            DataSetError: A data set lacks data that it had when the state was saved, or has been altered.
            ValueError: The state is malformed, or belongs to other policies.
        """
        for policy, own in state.items():
            if policy not in self._trainees:
                raise DataSetError(f"the checkpoint was saved with a data set of policy {policy}, which is missing")
            self._writers[policy] = self._writer(policy, has_log_probs=bool(own["has_log_probs"]))
            self._writers[policy].load_state(own["set"])

    def close(self) -> None:
        """Closes the data sets; episodes in progress are written as incomplete episodes."""
        for writer in self._writers.values():
            writer.close()


def _add(writer: SetWriter, raw: RawRows, worker_index: int) -> None:
    """Adds the rows of a fragment: all slots at once if each env has one agent, otherwise agent by agent."""
    if raw.agent_rows is None:
        slots = [f"{worker_index}/{slot}" for slot in range(len(raw.begins))]
        writer.add_slots(slots, raw.columns, raw.begins.tolist())
        return
    for slot, rows, agent, begins in raw.streams():
        writer.add(f"{worker_index}/{slot}", rows, agent=agent, begins=begins)
