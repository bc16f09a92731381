"""Ring buffer of a replay: stores each worker's fragments one after another, overwriting the oldest (NumPy)."""

from __future__ import annotations

from collections.abc import Sequence
from operator import methodcaller
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlrun.engine.data.packing import filled_rows
from rlrun.engine.data.restored_rows import RestoredRows
from rlrun.engine.data.sample_batch import HISTORY, SampleBatch
from rlrun.engine.data.tree import leaves, map_tree
from rlrun.engine.data.views import VIEW_FRAMES, viewed
from rlrun.engine.messages.errors import UsageError
from rlrun.engine.replay.columns import FLAGS, has_frames, rows_of, rows_without_steps, stores_for
from rlrun.engine.replay.memory import zeros_in
from rlrun.engine.replay.ready_steps import NO_STEPS, ReadySteps
from rlrun.engine.replay.stores import Indices, Store
from rlrun.engine.replay.streams import Cursor, Inserted, Streams


class Loan:
    """Rows of a ring that `RowLender` lends for a worker's next fragment.

    Attributes:
        latest: By worker, the column `obs` of the last inserted fragment.
        columns: Most recently lent columns.
        row: Row in which the lent columns begin.
    """

    def __init__(self, num_workers: int) -> None:
        self.latest: list[Any] = [None] * num_workers
        self.columns = NOTHING_LENT
        self.row = 0


NOTHING_LENT = SampleBatch(obs=None)


class ReplayRing:
    """Ring buffer of steps from several workers, read as n-step transitions; stores each observation once.

    The buffer has entries [workers, rows, env slots]. A worker's fragments are stored in consecutive rows, and a step's
    next observation is in the next row. A row with an episode's final observation holds no step and is never sampled.
    After a worker's restart, one row is skipped: it holds the final observation of the interrupted episode.

    Empty rows (`rlrun.engine.data.packing`) are not stored. From a worker's first empty row on, each env slot has its
    own write position; until then all slots share one, which is faster.

    A step can be sampled once all steps of its n-step transition are stored. Stacks of past observations
    (`rlrun.engine.data.views`) are stored as single observations, and rebuilt when read.

    To store sequences instead of steps, use `streams` (indices of entries), `read`, and `insert`, whose result lists
    new and overwritten rows. Columns named by `extra` (recurrent state, episode starts) are stored too.

    Args:
        capacity: Capacity in steps, over all workers.
        num_workers: Number of workers. The number of rows per worker is capacity / (workers * env slots).
        n_step: Maximum length n of an n-step transition.
        gamma: Discount factor.
        extra: Names of additional columns to store, each [T, B, ...] or a tree of such arrays.
        frame_stack: Number of images in a frame stack (newest last), each stored once; None without frame stacks.
        on_disk: Directory of memory-mapped files for the columns; None for RAM.

    Attributes:
        ready: The steps that can be sampled.
        streams: Flat indexing of entries, and write positions; no entries before the first insertion.
        stores: Storage of each column by name; nested columns have a tree of stores.
        reach: Number of earlier rows that a row's windows or stacks are read from.
        loan: Rows that are lent for the next fragment.
    """

    def __init__(
        self,
        capacity: int,
        num_workers: int,
        n_step: int,
        gamma: float,
        *,
        extra: Sequence[str] = (),
        frame_stack: int | None = None,
        on_disk: str | None = None,
    ) -> None:
        self.capacity, self.num_workers, self.n_step, self.gamma = capacity, num_workers, n_step, gamma
        self.extra, self.frame_stack, self.on_disk = tuple(extra), frame_stack, on_disk
        self.ready = ReadySteps(n_step, gamma)
        self.reach = 0 if frame_stack is None else frame_stack - 1
        self.streams = Streams(num_workers, 0, 0, self.reach)
        self._names = ("obs", "actions", "rewards", *FLAGS, *extra)
        self.stores: dict[str, Any] = {}
        self._flat_stores: dict[str, list[Store]] = {}
        self._like: dict[str, Any] = {}
        self._restored = RestoredRows()
        self.loan = Loan(num_workers)

    @property
    def rows(self) -> int:
        """Number of rows per env slot; 0 before the first insertion."""
        return self.streams.rows

    @property
    def num_slots(self) -> int:
        """Number of env slots per worker; 0 before the first insertion."""
        return self.streams.num_slots

    def insert(self, worker: int, fragment: SampleBatch) -> list[Inserted]:
        """Stores a fragment of T steps in B env slots after the worker's previous one, overwriting its oldest rows.

        Args:
            worker: Index of the worker in the buffer, from 0.
            fragment: Columns of the fragment; `obs` has T + 1 rows.

        Returns:
            Inserted and lost rows, as one entry for all env slots, or one for each slot that received rows.

        Raises:
            UsageError: The capacity is too small for the fragment.
        """
        if HISTORY in fragment:
            fragment = viewed(fragment)
        length = fragment["valid"].shape[0]
        if not self.stores:
            self._allocate(fragment)
        if self._restored.rows:
            self._restored.compare(self._no_rows(fragment))
        least = length + self.n_step + 2 + self.reach
        if least > self.streams.rows:
            raise UsageError(
                f"a replay buffer of {self.capacity:,} steps has {self.rows} rows per env, but {least} are needed for "
                f"a fragment of {length} steps and the adjacent steps of n-step returns and frame stacks; set "
                f"replay.capacity to at least {least * self.num_workers * self.num_slots:,}"
            )
        self.loan.latest[worker] = fragment["obs"]
        cursor = self.streams.shared[worker]
        if cursor is not None:
            lent = self.loan.columns if self.loan.row == cursor.head else NOTHING_LENT
            continues = fragment["obs"] is lent["obs"] or self._continues(worker, cursor, fragment)
            if continues is not None and not self._has_gap(worker, cursor, fragment):
                closes = cursor.begun and not continues
                return [self._append(worker, cursor, fragment, slice(None), closes=closes, continues=continues)]
            self.streams.part(worker)
        filled = filled_rows(fragment["valid"], fragment["terminateds"] | fragment["truncateds"])
        slots = [(cursor, filled[:, cursor.slots.start].nonzero()[0]) for cursor in self.streams.each(worker)]
        return [self._append_packed(worker, cursor, fragment, rows) for cursor, rows in slots if len(rows)]

    def pad(self, worker: int, number: int) -> list[Inserted]:
        """Appends invalid rows to a worker's env slots, after the worker has delivered its last experience."""
        inserted = []
        for cursor in self.streams.each(worker):
            part = rows_without_steps(self._like, number, cursor.slots)
            inserted.append(self._append(worker, cursor, part, slice(None), closes=True, continues=False))
        return inserted

    def _has_gap(self, worker: int, cursor: Cursor, fragment: SampleBatch) -> bool:
        """Whether a fragment has empty rows; row 0 of a worker's first fragment may be a final observation."""
        valid = fragment["valid"]
        if np.add.reduce(valid, None) == valid.size:
            return False
        ended = self._has_ended(worker, cursor) if cursor.begun else np.ones(self.num_slots, np.bool_)
        filled = filled_rows(valid, fragment["terminateds"] | fragment["truncateds"], ended)[:-1]
        return bool(np.add.reduce(filled, None) < filled.size)

    def _has_ended(self, worker: int, cursor: Cursor) -> NDArray[np.bool_]:
        """Whether each slot's last step ended its episode, [slots]."""
        last = worker, (cursor.head - 1) % self.streams.rows, cursor.slots
        terminated, truncated, valid = self.stores["terminateds"], self.stores["truncateds"], self.stores["valid"]
        ended: NDArray[np.bool_] = (terminated.values[last] | truncated.values[last]) & valid.values[last]
        return ended

    def _continues(self, worker: int, cursor: Cursor, part: SampleBatch) -> bool | None:
        """Whether rows continue the stored episode: equal observations where they join; None if only some slots do.

        A restarted env with an identical first observation is not recognized; even the policy sees no difference.
        """
        if not cursor.begun:
            return False
        heads = self.streams.heads(worker, cursor)
        last = [store.read(heads) for store in self._flat_stores["obs"]]
        pairs = [(before, leaf[0]) for before, leaf in zip(last, leaves(part["obs"]), strict=True)]
        if all(before.tobytes() == after.tobytes() for before, after in pairs):
            return True
        same = (all(before[i].tobytes() == after[i].tobytes() for before, after in pairs) for i in range(len(heads)))
        return None if any(same) else False

    def _append_packed(self, worker: int, cursor: Cursor, fragment: SampleBatch, rows: Indices) -> Inserted:
        """Appends the non-empty rows of one env slot; the last row is the closing observation."""
        part = rows_of(fragment, self._names, rows, cursor.slots)
        # No row continues an ended episode, even if the next observation equals the final one. There is nothing
        # to close if the row before the head holds no step.
        continues = bool(self._continues(worker, cursor, part)) and not self._has_ended(worker, cursor).any()
        before = self._values("valid")[worker, (cursor.head - 1) % self.rows, cursor.slots]
        closes = cursor.begun and not continues and bool(before.all())
        return self._append(worker, cursor, part, rows[:-1], closes=closes, continues=continues)

    def _append(
        self, worker: int, cursor: Cursor, part: SampleBatch, steps: slice | Indices, *, closes: bool, continues: bool
    ) -> Inserted:
        """Appends consecutive rows without gaps, [T, slots of the cursor].

        Args:
            worker: Number of the worker.
            cursor: Write position of the env slots.
            part: Columns of the rows to append.
            steps: Indices of the appended rows in their fragment.
            closes: Whether the head holds a final observation; appending then starts one row later.
            continues: Whether the head already holds the first observation of the new rows.
        """
        streams, rows, slots = self.streams, self.streams.rows, cursor.slots
        length, head, closing = part["valid"].shape[0], cursor.head, int(closes)
        if closes:
            self._close(worker, cursor)
        first, lost = (head + closing) % rows, closing + length + 1 + self.reach
        lent = self.loan.columns if self.loan.row == first else NOTHING_LENT
        is_retired = part["obs"] is lent["obs"]  # these steps were retired when the rows were lent
        overwritten = NO_STEPS if is_retired else self.ready.retire(streams, worker, cursor, lost)
        own: slice | Indices = slice(first, first + length + 1)
        within: slice | Indices = slice(first, first + length)
        if first + length >= rows:
            own, within = streams.span(first, length + 1), streams.span(first, length)
        for name in self._names:
            column = part[name]
            if name in lent and column is lent[name]:
                continue
            given = [column] if column.__class__ is np.ndarray else leaves(column)
            for store, leaf in zip(self._flat_stores[name], given, strict=True):
                store.write(worker, own if name == "obs" else within, slots, leaf, continues=continues)
        streams.advance(worker, cursor, closing + length)
        self.stores["valid"].values[worker, cursor.head, slots] = False  # a step stored there is overwritten
        before = min(self.n_step - 1 + closing, cursor.filled - length) if self.n_step > 1 else 0
        ready = self.ready.add(streams, self.stores, worker, slots, (first - before) % rows, before + length)
        return Inserted(streams, worker, slots, steps, head, first, length, lost, overwritten, ready)

    def _no_rows(self, fragment: SampleBatch) -> dict[str, Any]:
        """Returns an empty fragment [0, B, ...] with the stored columns."""
        return {name: map_tree(lambda leaf: leaf[:0].copy(), fragment[name]) for name in self._names}

    def _allocate(self, fragment: SampleBatch) -> None:
        self._like = self._no_rows(fragment)
        num_slots = fragment["valid"].shape[1]
        if has_frames(fragment):
            self.reach = max(self.reach, leaves(fragment["obs"][VIEW_FRAMES])[0].shape[2] - 1)
        rows = self.capacity // (self.num_workers * num_slots)
        self.streams = Streams(self.num_workers, rows, num_slots, self.reach)
        self.stores = stores_for(
            fragment,
            (self.num_workers, rows, num_slots),
            extra=self.extra,
            is_n_step=self.n_step > 1,
            frame_stack=self.frame_stack,
            new=zeros_in(self.on_disk),
        )
        self._flat_stores = {name: leaves(tree) for name, tree in self.stores.items()}
        self.ready.allocate((self.num_workers, rows, num_slots))

    def _close(self, worker: int, cursor: Cursor) -> None:
        """Marks each slot's last step as truncated unless terminated; the head then holds its final observation."""
        last, slots = (cursor.head - 1) % self.rows, cursor.slots
        self._values("truncateds")[worker, last, slots] |= ~self._values("terminateds")[worker, last, slots]
        for name in (*FLAGS, "rewards"):
            self._values(name)[worker, cursor.head, slots] = 0

    def _values(self, name: str) -> NDArray[Any]:
        values: NDArray[Any] = self.stores[name].values
        return values

    def draw(self, generator: np.random.Generator, number: int, times: int = 1) -> Indices:
        """Samples indices of steps uniformly with replacement; returns `times` * `number` indices in one array.

        Raises:
            RuntimeError: No step can be sampled yet.
        """
        if not self.ready.number:
            raise RuntimeError("the replay buffer contains no complete step to sample")
        return self.streams.draw(generator, number, times, self.ready.flags.reshape(-1))

    def gather(self, indices: Indices) -> SampleBatch:
        """Reads the n-step transitions that start at N indices, as columns [N, 1, ...].

        `next_obs` is the bootstrap state.
        """
        indices, stores = indices[:, None], self.stores
        obs, read = stores["obs"], methodcaller("read", indices)
        if self.n_step == 1:
            following = self.streams.later(indices, 1)
            rewards, discounts = read(stores["rewards"]), ~read(stores["terminateds"]) * np.float32(self.gamma)
        else:
            following = self.streams.later(indices, read(stores["steps"]).astype(np.int64))
            rewards, discounts = read(stores["n_step_rewards"]), read(stores["discounts"])
        return SampleBatch(
            obs=map_tree(read, obs),
            actions=map_tree(read, stores["actions"]),
            rewards=rewards,
            discounts=discounts,
            next_obs=map_tree(methodcaller("read", following), obs),
            valid=read(stores["valid"]),  # all true: only steps are ready
        )

    def read(self, indices: Indices, names: Sequence[str]) -> SampleBatch:
        """Reads stored columns at the given indices, without computing n-step returns.

        Invalid entries hold no step; only their `obs` is meaningful: it is an episode's final observation, or the
        last one before an interruption. The newest row of a worker is invalid too.

        Args:
            indices: Flat indices of entries, [...].
            names: Some of `obs`, `actions`, `rewards`, `terminateds`, `truncateds`, `valid` and the `extra` columns.
        """
        return SampleBatch({name: map_tree(lambda store: store.read(indices), self.stores[name]) for name in names})

    def observed(self, indices: Indices, key: str) -> NDArray[Any]:
        """Reads one part of Dict observations, such as the desired goal, at the given indices."""
        part: NDArray[Any] = self.stores["obs"][key].read(indices)
        return part

    @property
    def num_bytes(self) -> int:
        """Bytes allocated for all columns of the buffer."""
        return int(self.ready.flags.nbytes + sum(each.num_bytes for own in self._flat_stores.values() for each in own))

    def state(self) -> dict[str, Any]:
        """Returns all stored rows and the write positions, for a checkpoint."""
        rows = self.streams.num_used_rows
        return {
            "streams": self.streams.state(),
            "like": self._like,
            "ready": self.ready.flags[:, :rows].copy() if self.stores else None,
            "stores": {name: map_tree(lambda store: store.state(rows), tree) for name, tree in self.stores.items()},
        }

    def load_state(self, state: dict[str, Any]) -> None:
        """Restores rows and write positions from the dict that `state()` returned."""
        if not state["like"]:
            return
        self._allocate(SampleBatch(state["like"]))
        self._restored.load([self._like])
        self.streams.load_state(state["streams"])
        for name, stores in self.stores.items():
            map_tree(lambda store, saved: store.load_state(saved), stores, state["stores"][name])
        self.ready.load(state["ready"])
