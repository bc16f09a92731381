"""Experience as it came, the oldest overwritten by the newest (NumPy)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlrun.data.packing import filled_rows
from rlrun.data.restored_rows import RestoredRows
from rlrun.data.sample_batch import SampleBatch
from rlrun.data.tree import leaves, map_tree
from rlrun.data.views import VIEW_FRAMES, viewed
from rlrun.errors import UsageError
from rlrun.replay.columns import FLAGS, has_frames, rows_of, rows_without_steps, stores_for
from rlrun.replay.memory import zeros_in
from rlrun.replay.n_step import n_step_transitions
from rlrun.replay.stores import Indices, Store
from rlrun.replay.streams import Cursor, Inserted, Streams

_NONE: Indices = np.zeros(0, np.int64)


class ReplayRing:
    """Keeps each worker's fragments end to end, every observation once.

    Places are [workers, rows, columns]: a row for each step of a worker, a column for each of its env slots.
    They are numbered through in this order. The observation behind a step is the one in the next row, which may be an
    episode's final one: that row then holds no step and is never drawn. A fragment that does not go on where its
    worker's last one ended (a worker was made anew) begins one row later: the row between closes what came before.

    Empty rows (`rlrun.data.packing`) are not kept: from the first one on, each slot's stream of its worker grows by its
    own rows. Until then the slots of a worker share their rows, which is faster.

    A step can be drawn once all steps of its n-step transition are here.

    Of views of several observations (`rlrun.data.views`) each observation is kept once; they are put together again
    when they are read.

    Who draws something else than steps, such as sequences, finds its way with `streams`, reads with `read`, and
    learns from what `insert` returns which rows are new and which are gone. A fragment's columns beyond those of a
    step (a recurrent state, the starts of episodes) are kept if they are named in `extra`.

    Args:
        capacity: Steps over all workers.
        num_workers: Workers, from whose columns the number of rows follows.
        n_step: Steps of a transition.
        gamma: Discount.
        extra: Further columns of the fragments that are kept, each [T, B, ...] or a tree of such.
        frame_stack: How many images an observation, or a part of it, is a stack of, the newest last; each is then kept
            once. None for none.
        on_disk: Directory whose files hold the steps; None for memory.

    Attributes:
        num_ready: Steps that can be drawn.
        streams: Where each slot's stream stands; none before the first insertion, when shapes are known.
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
        self.capacity = capacity
        self.num_workers = num_workers
        self.n_step = n_step
        self.gamma = gamma
        self.extra = tuple(extra)
        self.frame_stack = frame_stack
        self.on_disk = on_disk
        self.num_ready = 0
        # Rows that what is read of a row takes frames from.
        self._reach = 0 if frame_stack is None else frame_stack - 1
        self.streams = Streams(num_workers, 0, 0, self._reach)
        self._names = ("obs", "actions", "rewards", *FLAGS, *extra)
        self._stores: dict[str, Any] = {}
        self._flat_stores: dict[str, list[Store]] = {}
        self._like: dict[str, Any] = {}
        self._restored = RestoredRows()
        self._ready = np.zeros(0, np.bool_)

    @property
    def rows(self) -> int:
        """Rows of each worker; 0 before the first insertion."""
        return self.streams.rows

    @property
    def columns(self) -> int:
        """Columns of each worker; 0 before the first insertion."""
        return self.streams.columns

    def insert(self, worker: int, fragment: SampleBatch) -> list[Inserted]:
        """Stores a fragment [T, B] behind the last one of its worker; says what that did, for all slots or for each.

        Args:
            worker: Whose it is.
            fragment: Its columns, with one observation more than steps.

        Raises:
            UsageError: If the capacity is too small for it.
        """
        fragment = viewed(fragment)
        length = len(fragment["valid"])
        if not self._stores:
            self._set_aside(fragment)
        if self._restored.waits:
            self._restored.compare(self._no_rows(fragment))
        least = length + self.n_step + 2 + self._reach
        if least > self.rows:
            raise UsageError(
                f"a replay of {self.capacity:,} steps has {self.rows} rows for each env and is too small for fragments "
                f"of {length}: set replay.capacity to at least {least * self.num_workers * self.columns:,}"
            )
        cursor = self.streams.shared(worker)
        if cursor is not None:
            goes_on = self._goes_on(worker, cursor, fragment)
            if goes_on is not None and not self._has_gap(worker, cursor, fragment):
                seals = cursor.begun and not goes_on
                return [self._append(worker, cursor, fragment, slice(None), seals=seals, continues=goes_on)]
            self.streams.part(worker)
        filled = filled_rows(fragment["valid"], fragment["terminateds"] | fragment["truncateds"])
        slots = [(cursor, filled[:, cursor.slots.start].nonzero()[0]) for cursor in self.streams.each(worker)]
        return [self._append_packed(worker, cursor, fragment, rows) for cursor, rows in slots if len(rows)]

    def pad(self, worker: int, number: int) -> list[Inserted]:
        """Stores so many rows without steps behind all streams of a worker, in which nothing more comes."""
        inserted = []
        for cursor in self.streams.each(worker):
            part = rows_without_steps(self._like, number, cursor.slots)
            inserted.append(self._append(worker, cursor, part, slice(None), seals=True, continues=False))
        return inserted

    def _has_gap(self, worker: int, cursor: Cursor, fragment: SampleBatch) -> bool:
        """Whether a fragment has empty rows; row 0 of a worker's first fragment may hold a final observation."""
        valid = fragment["valid"]
        if np.count_nonzero(valid) == valid.size:
            return False
        ended = self._has_ended(worker, cursor) if cursor.begun else np.ones(self.columns, np.bool_)
        filled = filled_rows(valid, fragment["terminateds"] | fragment["truncateds"], ended)[:-1]
        return int(np.count_nonzero(filled)) < filled.size

    def _has_ended(self, worker: int, cursor: Cursor) -> NDArray[np.bool_]:
        """Whether the last row before a head holds a step that ended its episode, for each slot."""
        terminated, truncated, valid = (self._last(name, worker, cursor) for name in FLAGS)
        return (terminated | truncated) & valid

    def _last(self, name: str, worker: int, cursor: Cursor) -> NDArray[np.bool_]:
        last: NDArray[np.bool_] = self._values(name)[worker, (cursor.head - 1) % self.rows, cursor.slots]
        return last

    def _goes_on(self, worker: int, cursor: Cursor, part: SampleBatch) -> bool | None:
        """Whether rows begin with the observations that those before them ended with, bit for bit.

        A new stream that happens to begin so cannot be told from one that goes on, by a policy no more than here. None
        if some slots' rows do and others' do not.
        """
        if not cursor.begun:
            return False
        heads = self.streams.heads(worker, cursor)
        last = [store.read(heads) for store in self._flat_stores["obs"]]
        pairs = [(before, leaf[0]) for before, leaf in zip(last, _leaves(part["obs"]), strict=True)]
        if all(before.tobytes() == after.tobytes() for before, after in pairs):
            return True
        same = (all(before[i].tobytes() == after[i].tobytes() for before, after in pairs) for i in range(len(heads)))
        return None if any(same) else False

    def _append_packed(self, worker: int, cursor: Cursor, fragment: SampleBatch, rows: Indices) -> Inserted:
        """Stores those rows of a fragment that hold something in one slot; the last of them closes the others."""
        part = rows_of(fragment, self._names, rows, cursor.slots)
        # Behind an end a new stream begins, also with an observation like the final one. Where no step stands before
        # the head, there is nothing to close.
        goes_on = bool(self._goes_on(worker, cursor, part)) and not self._has_ended(worker, cursor).any()
        seals = cursor.begun and not goes_on and bool(self._last("valid", worker, cursor).all())
        return self._append(worker, cursor, part, rows[:-1], seals=seals, continues=goes_on)

    def _append(
        self, worker: int, cursor: Cursor, part: SampleBatch, steps: slice | Indices, *, seals: bool, continues: bool
    ) -> Inserted:
        """Stores rows without gaps, [T, slots of the cursor].

        Args:
            worker: Whose they are.
            cursor: Where they go.
            part: Their columns.
            steps: Which rows of a fragment they were.
            seals: Whether what stands at the head closes the steps before it, so that they begin one row later.
            continues: Whether their first observation stands at the head already.
        """
        streams, rows, slots = self.streams, self.streams.rows, cursor.slots
        length, head, sealed = len(part["valid"]), cursor.head, int(seals)
        if seals:
            self._close(worker, cursor)
        first = (head + sealed) % rows
        lost = sealed + length + 1 + self._reach
        overwritten = self._retire(worker, cursor, lost)
        own, within = streams.span(first, length + 1), streams.span(first, length)
        for name in self._names:
            for store, leaf in zip(self._flat_stores[name], _leaves(part[name]), strict=True):
                store.write(worker, own if name == "obs" else within, slots, leaf, continues=continues)
        streams.advance(worker, cursor, sealed + length)
        self._values("valid")[worker, cursor.head, slots] = False  # what stood there is gone, or closes a stream
        before = min(self.n_step - 1 + sealed, cursor.filled - length) if self.n_step > 1 else 0
        return Inserted(
            worker=worker,
            slots=slots,
            steps=steps,
            rows=streams.row_numbers(first, length + 1),
            lost=streams.row_numbers(head, lost),
            overwritten=overwritten,
            ready=self._add_transitions(worker, slots, (first - before) % rows, before + length),
        )

    def _no_rows(self, fragment: SampleBatch) -> dict[str, Any]:
        """Returns the columns that are kept of a fragment, without any rows [0, B, ...]."""
        return {name: map_tree(lambda leaf: leaf[:0].copy(), fragment[name]) for name in self._names}

    def _set_aside(self, fragment: SampleBatch) -> None:
        self._like = self._no_rows(fragment)
        columns = fragment["valid"].shape[1]
        if has_frames(fragment):
            self._reach = max(self._reach, leaves(fragment["obs"][VIEW_FRAMES])[0].shape[2] - 1)
        rows = self.capacity // (self.num_workers * columns)
        self.streams = Streams(self.num_workers, rows, columns, self._reach)
        self._stores = stores_for(
            fragment,
            (self.num_workers, rows, columns),
            extra=self.extra,
            is_n_step=self.n_step > 1,
            frame_stack=self.frame_stack,
            new=zeros_in(self.on_disk),
        )
        self._flat_stores = {name: leaves(tree) for name, tree in self._stores.items()}
        self._ready = np.zeros((self.num_workers, rows, columns), np.bool_)

    def _close(self, worker: int, cursor: Cursor) -> None:
        """Has the steps that a stream breaks off with end at its last observation, which is no end for good."""
        last, slots = (cursor.head - 1) % self.rows, cursor.slots
        self._values("truncateds")[worker, last, slots] |= ~self._values("terminateds")[worker, last, slots]
        for name in (*FLAGS, "rewards"):
            self._values(name)[worker, cursor.head, slots] = 0

    def _values(self, name: str) -> NDArray[Any]:
        values: NDArray[Any] = self._stores[name].values
        return values

    def _retire(self, worker: int, cursor: Cursor, number: int) -> Indices:
        """Has rows from a head on not be drawn any more; returns the indices that could be until now."""
        first, slots = cursor.head, cursor.slots
        if cursor.filled < self.rows and first + number <= self.rows:
            return _NONE  # nothing was ever there
        rows = self.streams.span(first, number)
        where, columns = self._ready[worker, rows, slots].nonzero()
        if not len(where):
            return _NONE
        self.num_ready -= len(where)
        self._ready[worker, rows, slots] = False
        return self.streams.numbered(worker, (first + where) % self.rows, columns + slots.start)

    def _add_transitions(self, worker: int, slots: slice, first: int, number: int) -> Indices:
        """Works out the transitions from rows that follow each other; returns the indices that are ready now."""
        rows = self.streams.span(first, number)
        if self.n_step == 1:
            new = self._values("valid")[worker, rows, slots]
            self._ready[worker, rows, slots] = new
        else:
            own = {name: self._values(name)[worker, rows, slots] for name in ("rewards", *FLAGS)}
            found = n_step_transitions(**own, gamma=self.gamma, n_step=self.n_step)
            self._values("n_step_rewards")[worker, rows, slots] = found.rewards
            self._values("discounts")[worker, rows, slots] = found.discounts
            self._values("steps")[worker, rows, slots] = found.steps
            new = found.complete & ~self._ready[worker, rows, slots]
            self._ready[worker, rows, slots] |= new
        where, columns = new.nonzero()
        self.num_ready += len(where)
        return self.streams.numbered(worker, (first + where) % self.rows, columns + slots.start)

    def draw(self, generator: np.random.Generator, number: int) -> Indices:
        """Draws indices among those that are ready, each as likely as any other and with repetition, [number].

        Raises:
            RuntimeError: If none is ready.
        """
        if not self.num_ready:
            raise RuntimeError("nothing can be drawn from a replay that holds no whole step")
        ready = self._ready.reshape(-1)
        drawn = self.streams.candidates(generator, number)
        wrong = (~ready[drawn]).nonzero()[0]
        while len(wrong):
            drawn[wrong] = self.streams.candidates(generator, len(wrong))
            wrong = wrong[~ready[drawn[wrong]]]
        return drawn

    def ready_indices(self) -> Indices:
        """Returns the indices of all steps that can be drawn, ascending."""
        found: Indices = np.flatnonzero(self._ready)
        return found

    def gather(self, indices: Indices) -> SampleBatch:
        """Returns the steps at indices as rows [N, 1], each with the observation behind its transition's last step."""
        indices = indices[:, None]
        obs = self._stores["obs"]
        if self.n_step == 1:
            behind = self.streams.later(indices, 1)
            rewards = self._stores["rewards"].read(indices)
            discounts = ~self._stores["terminateds"].read(indices) * np.float32(self.gamma)
        else:
            behind = self.streams.later(indices, self._stores["steps"].read(indices).astype(np.int64))
            rewards, discounts = self._stores["n_step_rewards"].read(indices), self._stores["discounts"].read(indices)
        return SampleBatch(
            obs=map_tree(lambda store: store.read(indices), obs),
            actions=map_tree(lambda store: store.read(indices), self._stores["actions"]),
            rewards=rewards,
            discounts=discounts,
            next_obs=map_tree(lambda store: store.read(behind), obs),
            valid=np.ones(indices.shape, np.bool_),
        )

    def read(self, indices: Indices, names: Sequence[str]) -> SampleBatch:
        """Returns columns at indices as they were inserted, with the indices' own leading dimensions.

        Where `valid` is False no step stands there, and of the columns only `obs` means something: it is an
        episode's final observation, or the last one before a stream broke off. The same holds for the newest row of a
        worker.

        Args:
            indices: Which ones, [...].
            names: Of `obs`, `actions`, `rewards`, `terminateds`, `truncateds`, `valid` and the `extra` ones.
        """
        return SampleBatch({name: map_tree(lambda store: store.read(indices), self._stores[name]) for name in names})

    def are_ready(self, indices: Indices) -> NDArray[np.bool_]:
        """Whether the steps at indices [...] can be drawn, [...]."""
        ready: NDArray[np.bool_] = self._ready.reshape(-1).take(indices)
        return ready

    @property
    def num_bytes(self) -> int:
        """Bytes that are set aside."""
        stores = [store for stores in self._flat_stores.values() for store in stores]
        return int(self._ready.nbytes + sum(store.num_bytes for store in stores))

    def state(self) -> dict[str, Any]:
        """Returns everything that was inserted and is still there."""
        rows = self.streams.num_used_rows
        return {
            "streams": self.streams.state(),
            "like": self._like,
            "ready": self._ready[:, :rows].copy() if self._stores else None,
            "stores": {name: map_tree(lambda store: store.state(rows), tree) for name, tree in self._stores.items()},
        }

    def load_state(self, state: dict[str, Any]) -> None:
        """Goes on with what `state` returned."""
        if not state["like"]:
            return
        self._set_aside(SampleBatch(state["like"]))
        self._restored.load([self._like])
        self.streams.load_state(state["streams"])
        for name, stores in self._stores.items():
            map_tree(lambda store, saved: store.load_state(saved), stores, state["stores"][name])
        self._ready[:, : state["ready"].shape[1]] = state["ready"]
        self.num_ready = int(np.count_nonzero(self._ready))


def _leaves(tree: Any) -> list[Any]:
    """Returns a tree's leaves, fast for the commonest one, which is an array."""
    return [tree] if isinstance(tree, np.ndarray) else leaves(tree)
