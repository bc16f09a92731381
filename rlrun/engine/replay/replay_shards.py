"""Replay buffer divided among Ray actors (shards), so that workers and learner need not wait for each other.

Ape-X and R2D2 use it.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rlrun.engine.actors.actor_place import Call
from rlrun.engine.actors.batch_ref import BatchRef
from rlrun.engine.actors.supervised_actors import SupervisedActors
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.functional.seeding import child_seed
from rlrun.engine.messages.errors import CheckpointError
from rlrun.engine.replay.replay import GIGABYTES, RESTARTS, Awaited, ReplayRatio
from rlrun.engine.replay.replay_buffer import ReplayBuffer
from rlrun.engine.replay.samplers import sampler_of

if TYPE_CHECKING:
    from rlrun.engine.replay.hindsight import MakeGoals
    from rlrun.engine.replay.replay_config import ReplayConfig

NewPriorities = tuple[NDArray[np.int64], NDArray[np.float32]]
"""Priority update of a shard: replay indices [N] and new priorities [N]; the last of duplicate indices counts."""

PORTIONS = 4
"""Number of requests into which a shard's minibatches in flight are divided: three of four portions keep the learner
busy until the next portion arrives, with few messages."""

UNSTORED_FRAGMENTS = 8
"""Number of pending fragments per shard at which the replay stops accepting fragments (backpressure)."""


SHARD_BIT = 40
"""Bit offset of the shard number in a global replay index; the lower bits are the index within the shard."""


class ReplayShard:
    """One part of a divided replay buffer: a Ray actor that stores the fragments of some of the workers.

    Args:
        make_buffer: Function, which can be pickled, that creates an empty replay buffer.
    """

    def __init__(self, make_buffer: Callable[[], ReplayBuffer]) -> None:
        self._buffer = make_buffer()

    def add(self, stream: int, fragment: SampleBatch | BatchRef) -> tuple[int, int]:
        """Stores a worker's fragment in this shard's replay buffer.

        Returns:
            Number of valid steps in the fragment (0 if the fragment was lost with its worker), and the bytes that the
            shard has allocated.
        """
        batch = fragment.fetch() if isinstance(fragment, BatchRef) else fragment
        steps = 0 if batch is None else self._buffer.add(stream, batch)
        return steps, self._buffer.num_bytes

    def sample(
        self, number: int, minibatch_size: int, env_steps: int, priorities: NewPriorities | None
    ) -> SampleBatch | None:
        """Sets the priorities that the learner has computed since the last call, then samples minibatches.

        Args:
            number: Number of minibatches, N.
            minibatch_size: Rows per minibatch, S.
            env_steps: Total env steps so far, for hyperparameter schedules.
            priorities: New priorities of the rows of earlier minibatches.

        Returns:
            Columns of the minibatches, [N, S, ...]; None if the shard is empty.
        """
        if priorities is not None:
            self.update_priorities(*priorities)
        return self._buffer.minibatches(number, minibatch_size, env_steps) if self._buffer.num_ready else None

    def update_priorities(self, indices: NDArray[np.int64], priorities: NDArray[np.float32]) -> None:
        """Sets the priorities of sampled rows; does nothing after a restart of the shard, which loses the rows."""
        if self._buffer.num_ready:
            self._buffer.update_priorities(indices, priorities)

    def state(self) -> dict[str, Any]:
        """Returns the random state of sampling, and the stored experience if checkpoints include it."""
        return self._buffer.state()

    def load_state(self, state: dict[str, Any]) -> None:
        """Restores this shard from the dict that `state()` returned."""
        self._buffer.load_state(state)

    def close(self) -> None:
        """Does nothing: the memory is freed when the actor's process ends."""


class ReplayShards:
    """Replay buffer divided among Ray actors (shards); each stores all fragments of some of the workers.

    The actors start at first use, in the Ray cluster of the remote workers. A shard that dies or exceeds the timeout is
    restarted with an empty buffer.

    Args:
        config: Settings of the replay; the capacity is divided among the shards.
        num_shards: Number of shards.
        workers: Indices of the rollout workers.
        n_step: Maximum length n of an n-step transition.
        gamma: Discount factor.
        seed: Root seed of the shards' samplers.
        minibatches_in_flight: Number of minibatches prefetched from each shard.
        minibatches_per_fragment: Minibatches that the learner must sample before the next fragment is accepted.
        timeout_s: Seconds to wait for a shard's answer before the shard is restarted.
        max_restarts: Maximum number of shard restarts before the trial fails.
        make_goals: Function that creates the env's goal functions (rewards and terminations), for hindsight replay;
            None if the env has none.

    Attributes:
        num_shards: Number of shards, at most one for each worker.
        stored_steps: Number of steps added to all shards, including steps lost with a failed shard.
        sampled_minibatches: Number of minibatches requested from the shards so far.
    """

    def __init__(
        self,
        config: ReplayConfig,
        num_shards: int,
        workers: Sequence[int],
        *,
        n_step: int,
        gamma: float,
        seed: int,
        minibatches_in_flight: int,
        minibatches_per_fragment: int,
        timeout_s: float,
        max_restarts: int,
        make_goals: MakeGoals | None = None,
    ) -> None:
        self.num_shards = min(num_shards, len(workers))
        self.stored_steps = 0
        self.sampled_minibatches = 0
        self._config = config
        self._in_flight = minibatches_in_flight
        self._minibatches_per_fragment = minibatches_per_fragment
        self._earlier_restarts = 0
        self._places = {worker: divmod(i, self.num_shards) for i, worker in enumerate(workers)}
        self._actors: SupervisedActors | None = None
        self._turn = 0
        streams = Counter(shard for _, shard in self._places.values())
        new = partial(ReplayBuffer, n_step=n_step, gamma=gamma, make_goals=make_goals)
        own_config = config.replace(capacity=max(config.capacity // self.num_shards, 1))

        def maker(shard: int) -> Callable[[], ReplayShard]:
            seed_of_shard = child_seed(seed, "replay", shard)
            return partial(ReplayShard, partial(new, own_config, num_workers=streams[shard], seed=seed_of_shard))

        self._start = partial(
            SupervisedActors,
            maker,
            range(self.num_shards),
            what="replay shard",
            num_cpus=0.0,  # it uses little CPU compared with the workers and the learner
            timeout_s=timeout_s,
            max_restarts=max_restarts,
        )
        self._forget()

    def _forget(self) -> None:
        self._stored: deque[Call] = deque()
        self._sampled: deque[Call] = deque()
        self._arrived: deque[tuple[int, SampleBatch, int]] = deque()
        self._unstored: Counter[int] = Counter()
        self._undrawn: Counter[int] = Counter()
        self._num_bytes: Counter[int] = Counter()
        self._new_priorities: dict[int, list[NewPriorities]] = {}
        self._empty: set[int] = set()
        self._owed = 0

    @property
    def restarts(self) -> int:
        """Number of shard restarts in the trial, including those before it was resumed."""
        return self._earlier_restarts + (self._actors.restarts if self._actors else 0)

    @property
    def accepts_fragments(self) -> bool:
        """Whether a fragment can be added now: no shard has a full queue, and the learner keeps up.

        The learner keeps up if it has sampled `minibatches_per_fragment` minibatches since the last fragment.
        """
        keeps_up = max(self._unstored.values(), default=0) < UNSTORED_FRAGMENTS
        return keeps_up and not (self._owed and sum(self._undrawn.values()))

    @property
    def has_minibatch(self) -> bool:
        """Whether a minibatch that was requested in advance has arrived from a shard."""
        return bool(self._arrived)

    def add(self, worker: int | None, fragment: SampleBatch | BatchRef) -> None:
        """Sends a fragment to the shard of its worker, without waiting."""
        assert worker is not None  # shards keep the fragments of remote workers
        stream, shard = self._places[worker]
        self._unstored[shard] += 1
        self._empty.discard(shard)
        self._owed = self._minibatches_per_fragment
        self._started().ask(shard, "add", stream, fragment).inbox = self._stored

    @property
    def learns_priorities(self) -> bool:
        """Whether sampling depends on the priorities that `update_priorities` sets."""
        sampler, _ = sampler_of(self._config)
        return sampler.learns_priorities

    def sample(
        self, minibatch_size: int, env_steps: int, ratio: ReplayRatio, at_most: int = 1, *, unread: bool = False
    ) -> SampleBatch | None:
        """Returns a minibatch that has arrived (None if none has), and requests more as the replay ratio allows."""
        if not self._arrived or any(self._may_be_asked(shard) for shard in range(self.num_shards)):
            self.attend()  # not before each minibatch, since attending takes as long as several minibatches
            self._request(minibatch_size, env_steps, ratio.minibatches(self.stored_steps))
        if not self._arrived:
            return None
        shard, batches, number = self._arrived.popleft()
        self._undrawn[shard] -= 1
        self._owed = max(self._owed - 1, 0)
        minibatch = SampleBatch(batches).map(lambda leaf: leaf[number])
        return SampleBatch(minibatch, indices=minibatch["indices"] + (shard << SHARD_BIT))

    def _may_be_asked(self, shard: int) -> bool:
        return shard not in self._empty and self._undrawn[shard] + self._portion <= self._in_flight

    @property
    def _portion(self) -> int:
        """Returns the number of minibatches to request in one actor call."""
        return -(-self._in_flight // PORTIONS)

    def _request(self, minibatch_size: int, env_steps: int, allowed: int) -> None:
        """Prefetches minibatches from all non-empty shards, up to the limit in flight.

        Shards are visited round-robin, one portion each, so that even a few allowed minibatches are spread over all
        shards.

        Args:
            minibatch_size: Rows per minibatch.
            env_steps: Total env steps so far, for hyperparameter schedules.
            allowed: Upper bound of `sampled_minibatches`, from the replay ratio.
        """
        passed_over = 0
        while passed_over < self.num_shards and self.sampled_minibatches < allowed:
            shard, self._turn = self._turn, (self._turn + 1) % self.num_shards
            if not self._may_be_asked(shard):
                passed_over += 1
                continue
            passed_over, number = 0, min(self._portion, allowed - self.sampled_minibatches)
            self._undrawn[shard] += number
            self.sampled_minibatches += number
            priorities = self._take_new_priorities(shard)
            call = self._started().ask(shard, "sample", number, minibatch_size, env_steps, priorities)
            call.inbox = self._sampled

    def attend(self) -> None:
        """Handles messages from the shards that have arrived, without blocking, and restarts failed shards.

        Raises:
            TrainingFailed: More shards failed than `max_restarts` allows.
        """
        self._started().attend()
        while self._stored:
            call = self._stored.popleft()
            steps, self._num_bytes[call.actor] = call.answer
            self.stored_steps += steps
            self._unstored[call.actor] -= 1
        while self._sampled:
            call = self._sampled.popleft()
            number = call.arguments[0]
            if call.answer is not None:
                self._arrived.extend((call.actor, call.answer, i) for i in range(number))
                continue
            self._undrawn[call.actor] -= number
            self.sampled_minibatches -= number
            if not self._unstored[call.actor]:  # the shard is not asked again before it receives a fragment
                self._empty.add(call.actor)

    def update_priorities(self, indices: NDArray[np.int64], priorities: NDArray[np.float32]) -> None:
        """Stores new priorities, to be sent to their shards with the next request for minibatches."""
        if len(priorities):
            shard = int(indices[0]) >> SHARD_BIT
            self._new_priorities.setdefault(shard, []).append((indices - (shard << SHARD_BIT), priorities))

    def _take_new_priorities(self, shard: int) -> NewPriorities | None:
        waiting = self._new_priorities.pop(shard, None)
        if waiting is None:
            return None
        indices, priorities = zip(*waiting, strict=True)
        return np.concatenate(indices), np.concatenate(priorities)

    def settings(self) -> dict[str, Any]:
        """Settings of the replay that the printed dataflow plan shows, by name."""
        return {"shards": self.num_shards, "capacity": self._config.capacity}

    def metrics(self) -> dict[str, float]:
        """Returns metrics: the memory or disk space that the shards have allocated, and the number of restarts."""
        return {
            GIGABYTES.name: self._num_bytes.total() / 1e9,
            RESTARTS.name: float(self.restarts),
        }

    def awaited(self) -> Awaited:
        """Returns the Ray references of unanswered calls, and the time at which the first of them times out."""
        return self._started().awaited()

    @property
    def is_saved(self) -> bool:
        """Always False: minibatches requested in advance are not saved, so a resumed run samples them again."""
        return False

    def state(self) -> dict[str, Any]:
        """Returns each shard's experience and random state, without the minibatches that were requested in advance."""
        actors = self._started()
        for shard in range(self.num_shards):
            if (priorities := self._take_new_priorities(shard)) is not None:
                actors.post(shard, "update_priorities", *priorities)
        states = actors.answers([actors.ask(i, "state", may_take_long=True) for i in range(self.num_shards)])
        self.attend()
        in_flight = sum(self._undrawn.values())
        return {
            "stored_steps": self.stored_steps,
            "sampled_minibatches": self.sampled_minibatches - in_flight,
            "restarts": self.restarts,
            "shards": states,
        }

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Restores the shards from the dict that `state()` returned.

        Raises:
            CheckpointError: The number of shards differs from the number in `state`.
        """
        states = state["shards"]
        if len(states) != self.num_shards:
            raise CheckpointError(
                f"the checkpoint was saved with {len(states)} replay shards and cannot be resumed with "
                f"{self.num_shards}"
            )
        actors = self._started()
        actors.forget()
        self._forget()
        actors.answers([actors.ask(i, "load_state", own, may_take_long=True) for i, own in enumerate(states)])
        self.stored_steps, self.sampled_minibatches = int(state["stored_steps"]), int(state["sampled_minibatches"])
        if any(own["kept"] is None for own in states):  # not saved, since it was too large: the buffer starts empty
            self.stored_steps = self.sampled_minibatches = 0
        self._earlier_restarts = int(state["restarts"]) - actors.restarts

    def close(self) -> None:
        """Ends the shards' processes."""
        if self._actors:
            self._actors.close()
        self._actors = None
        self._forget()

    def _started(self) -> SupervisedActors:
        if self._actors is None:
            self._actors = self._start()
        return self._actors
