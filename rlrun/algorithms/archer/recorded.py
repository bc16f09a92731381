"""Recorded dialogues, in the form of a replay's minibatches of sequences (NumPy)."""

from __future__ import annotations

import numpy as np

from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.datasets.data_set import DataSet, Indices
from rlrun.engine.datasets.transitions import Sequences


class RecordedDialogues:
    """Sequences of recorded tokens, with the columns of `rlrun.engine.replay.sequences.SequenceReplay.sample`.

    Each is of one episode, which is cut into sequences from its start. What a core remembers before a sequence is
    unknown, and zero; so `length` is best that of a whole dialogue. `weights` are 0: by which probabilities the tokens
    were drawn is unknown.

    Args:
        data: The data set.
        length: L, tokens in a sequence.
        state_size: Numbers of a recurrent state.
    """

    def __init__(self, data: DataSet, *, length: int, state_size: int) -> None:
        self._sequences = Sequences(data, length=length)
        self._state_size = state_size

    def __len__(self) -> int:
        return len(self._sequences)

    def gather(self, items: Indices) -> SampleBatch:
        """Reads sequences by number, [S], and the observations after their last steps."""
        rows, steps, is_step = self._sequences.located(items)
        number, length = rows.shape
        seen = np.concatenate([np.where(is_step, rows, rows + 1), rows[:, -1:] + 1], 1)
        batch = self._sequences.read(rows, ("actions", "rewards", "terminateds"))
        own = SampleBatch(
            actions=batch["actions"],
            rewards=batch["rewards"].astype(np.float32),
            discounts=1 - batch["terminateds"].astype(np.float32),
            logp=np.zeros((number, length), np.float32),
            valid=is_step,
        ).zero_invalid()
        return SampleBatch(
            own,
            obs=self._sequences.read(seen, ("obs",))["obs"],
            episode_starts=np.pad(steps == 0, ((0, 0), (0, 1))),
            state=np.zeros((number, self._state_size), np.float32),
            steps=is_step.astype(np.int64),
            weights=np.zeros((number, 1), np.float32),
            indices=items,
        )
