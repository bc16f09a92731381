"""Replays in actors of their own, between workers that fill them and a learner that neither waits for the other."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rlrun.actors.actor_place import Call
from rlrun.actors.supervised_actors import SupervisedActors
from rlrun.data.sample_batch import SampleBatch
from rlrun.errors import CheckpointError
from rlrun.flow.initial_priorities import PRIORITIES
from rlrun.flow.left_on_workers import LeftOnWorker, held
from rlrun.functional.seeding import child_seed
from rlrun.replay.replay_buffer import ReplayBuffer

if TYPE_CHECKING:
    from rlrun.replay.replay_config import ReplayConfig
    from rlrun.rollout.worker_set import WorkerSet

Told = tuple[NDArray[np.int64], NDArray[np.float32]]
"""Cells [N] of a replay and how much is to be learned from each still, [N]; the last one counts for a cell."""

SHARD = "rlrun.flow.replay_shards:ReplayShard"
"""What makes a shard from its config."""

PORTIONS = 4
"""Messages in which the minibatches in flight are asked for: the learner has three of four portions to go on with until
the next is here, and few messages to send."""

UNSTORED_FRAGMENTS = 8
"""Fragments on their way into one shard, from which on no further ones are taken in."""


@dataclass(frozen=True)
class ShardConfig:
    """What a shard is made from; picklable.

    Attributes:
        replay: Settings of its own part of the replay.
        num_lanes: Workers whose fragments it keeps.
        n_step: Steps that are folded into one.
        gamma: Discount.
        seed: Seed of its draws.
    """

    replay: ReplayConfig
    num_lanes: int
    n_step: int
    gamma: float
    seed: int


class ReplayShard:
    """A replay in an actor, for the fragments of some of the workers."""

    def __init__(self, config: ShardConfig) -> None:
        """Makes the replay, which is empty."""
        self._replay = ReplayBuffer(
            config.replay,
            num_lanes=config.num_lanes,
            n_step=config.n_step,
            gamma=config.gamma,
            seed=config.seed,
        )

    def add(self, lane: int, fragment: SampleBatch | LeftOnWorker) -> tuple[int, int]:
        """Puts a fragment by.

        Returns:
            How many steps it holds, 0 if it was lost together with its worker; and the bytes that are set aside.
        """
        batch = held(fragment) if isinstance(fragment, LeftOnWorker) else fragment
        steps = 0 if batch is None else self._replay.add(lane, batch, batch.get(PRIORITIES))
        return steps, self._replay.num_bytes

    def sample(self, number: int, batch_size: int, env_steps: int, told: Told | None) -> SampleBatch | None:
        """Draws minibatches, after taking in what was learned from earlier ones.

        Args:
            number: How many, N.
            batch_size: Steps in each, S.
            env_steps: Env steps so far, for schedules.
            told: Priorities that are known by now.

        Returns:
            Their columns [N, S, ...]; None if there is nothing to draw.
        """
        if told is not None:
            self.update_priorities(*told)
        return self._replay.minibatches(number, batch_size, env_steps) if self._replay.num_ready else None

    def update_priorities(self, cells: NDArray[np.int64], priorities: NDArray[np.float32]) -> None:
        """Takes how much is to be learned from rows still; a shard made anew knows nothing of them."""
        if self._replay.num_ready:
            self._replay.update_priorities(cells, priorities)

    def state(self) -> dict[str, Any]:
        """Returns everything that is kept."""
        return self._replay.state()

    def load_state(self, state: dict[str, Any]) -> None:
        """Takes over what `state` returned."""
        self._replay.load_state(state)

    def close(self) -> None:
        """Ends nothing: what it keeps goes with it."""


class ReplayShards:
    """Several replays in actors; a worker's fragments always go to the same one, so that its stream stays whole.

    The actors start when they are first used, in the Ray that the remote workers run in. One that dies, or does not
    answer in time, is made anew and is empty then.

    Attributes:
        num_shards: How many they are, at most one for each worker.
        minibatches_per_fragment: How many minibatches are to be taken before the next fragment is welcome.
        stored_steps: Steps put by in all of them since they were empty, also those that were lost with a shard.
        drawn_batches: Minibatches asked for since then.
    """

    def __init__(
        self,
        config: ReplayConfig,
        num_shards: int,
        workers: WorkerSet,
        *,
        n_step: int,
        gamma: float,
        seed: int,
        minibatches_per_fragment: int,
        timeout_s: float,
        max_restarts: int,
    ) -> None:
        """Takes what is kept and how; starts nothing.

        Args:
            config: Settings; the capacity is shared out to the shards.
            num_shards: How many shards.
            workers: Whose fragments they are to keep.
            n_step: Steps that are folded into one.
            gamma: Discount.
            seed: Root seed of the draws.
            minibatches_per_fragment: How many minibatches are to be taken before the next fragment is welcome.
            timeout_s: Seconds after which a shard that has not answered is made anew.
            max_restarts: Shards made anew before the failure becomes the trial's.
        """
        self.num_shards = min(num_shards, len(workers.indices))
        self.config = config
        self.stored_steps = 0
        self.drawn_batches = 0
        self.minibatches_per_fragment = minibatches_per_fragment
        self._n_step = n_step
        self._gamma = gamma
        self._seed = seed
        self._timeout_s = timeout_s
        self._max_restarts = max_restarts
        self._earlier_restarts = 0
        self._places = {worker: divmod(i, self.num_shards) for i, worker in enumerate(workers.indices)}
        self._actors: SupervisedActors | None = None
        self._turn = 0
        self._forget()

    def _forget(self) -> None:
        self._stored: deque[Call] = deque()
        self._drawn: deque[Call] = deque()
        self._here: deque[tuple[int, SampleBatch, int]] = deque()
        self._unstored: Counter[int] = Counter()
        self._undrawn: Counter[int] = Counter()
        self._num_bytes: Counter[int] = Counter()
        self._told: dict[int, list[Told]] = {}
        self._empty: set[int] = set()
        self._owed = 0

    @property
    def restarts(self) -> int:
        """How many shards were made anew, over all sessions of the trial."""
        return self._earlier_restarts + (self._actors.restarts if self._actors else 0)

    @property
    def num_bytes(self) -> int:
        """Bytes that all shards have set aside, as far as they have told."""
        return self._num_bytes.total()

    @property
    def takes_fragments(self) -> bool:
        """Whether fragments are welcome: every shard keeps up, and so does learning where there is something to learn.

        Learning keeps up when so many minibatches were taken as are to follow each fragment.
        """
        keeps_up = max(self._unstored.values(), default=0) < UNSTORED_FRAGMENTS
        return keeps_up and not (self._owed and sum(self._undrawn.values()))

    def add(self, worker: int, fragment: SampleBatch | LeftOnWorker) -> None:
        """Has a fragment put by in its worker's shard; does not wait for that."""
        lane, shard = self._places[worker]
        self._unstored[shard] += 1
        self._empty.discard(shard)
        self._owed = self.minibatches_per_fragment
        self._started().ask(shard, "add", lane, fragment).inbox = self._stored

    @property
    def minibatches_here(self) -> int:
        """Minibatches that can be taken at once."""
        return len(self._here)

    def are_to_be_asked(self, in_flight: int) -> bool:
        """Tells whether minibatches may be asked for, or none are here; see `request`."""
        return not self._here or any(self._may_be_asked(shard, in_flight) for shard in range(self.num_shards))

    def _may_be_asked(self, shard: int, in_flight: int) -> bool:
        return shard not in self._empty and self._undrawn[shard] + _portion(in_flight) <= in_flight

    def request(self, batch_size: int, env_steps: int, in_flight: int, due: float) -> None:
        """Asks for minibatches: of every shard that has something, so many ahead of time.

        It asks for a portion of them at once, and the shards in turn, so that each has its share where few are due.

        Args:
            batch_size: Steps in each.
            env_steps: Env steps so far, for schedules.
            in_flight: How many a shard is asked for at a time.
            due: How many may have been drawn in all.
        """
        passed_over = 0
        while passed_over < self.num_shards and self.drawn_batches < due:
            shard, self._turn = self._turn, (self._turn + 1) % self.num_shards
            if self._may_be_asked(shard, in_flight):
                passed_over, number = 0, min(_portion(in_flight), int(due) - self.drawn_batches)
                self._undrawn[shard] += number
                self.drawn_batches += number
                call = self._started().ask(shard, "sample", number, batch_size, env_steps, self._take_told(shard))
                call.inbox = self._drawn
            else:
                passed_over += 1

    def attend(self) -> None:
        """Takes in what the shards have answered; never waits.

        Raises:
            TrainingFailed: If more shards died than may be made anew.
        """
        self._started().attend()
        while self._stored:
            call = self._stored.popleft()
            steps, self._num_bytes[call.actor] = call.answer
            self.stored_steps += steps
            self._unstored[call.actor] -= 1
        while self._drawn:
            call = self._drawn.popleft()
            number = call.arguments[0]
            if call.answer is not None:
                self._here.extend((call.actor, call.answer, i) for i in range(number))
                continue
            self._undrawn[call.actor] -= number
            self.drawn_batches -= number
            if not self._unstored[call.actor]:  # asked again when there is something new
                self._empty.add(call.actor)

    def take(self) -> tuple[int, SampleBatch] | None:
        """Returns a minibatch that is here, and its shard; None if there is none."""
        if not self._here:
            return None
        shard, batches, index = self._here.popleft()
        self._undrawn[shard] -= 1
        self._owed = max(self._owed - 1, 0)
        return shard, SampleBatch(batches).map(lambda leaf: leaf[index])

    def tell(self, shard: int, cells: NDArray[np.int64], priorities: NDArray[np.float32]) -> None:
        """Keeps how much is to be learned from rows still until the shard is asked for the next minibatches."""
        self._told.setdefault(shard, []).append((cells, priorities))

    def _take_told(self, shard: int) -> Told | None:
        told = self._told.pop(shard, None)
        if told is None:
            return None
        cells, priorities = zip(*told, strict=True)
        return np.concatenate(cells), np.concatenate(priorities)

    def awaited(self) -> tuple[tuple[Any, ...], float]:
        """Returns the Ray references, and the moment, of which one has to come before there is news."""
        return self._started().awaited()

    def state(self) -> dict[str, Any]:
        """Returns everything that is kept; minibatches under way are not."""
        actors = self._started()
        for shard in range(self.num_shards):
            if (told := self._take_told(shard)) is not None:
                actors.post(shard, "update_priorities", *told)
        states = actors.answers([actors.ask(i, "state", may_take_long=True) for i in range(self.num_shards)])
        self.attend()
        under_way = sum(self._undrawn.values())
        return {
            "stored_steps": self.stored_steps,
            "drawn_batches": self.drawn_batches - under_way,
            "restarts": self.restarts,
            "shards": states,
        }

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Takes over what `state` returned.

        Raises:
            CheckpointError: If it is of another number of shards.
        """
        states = state["shards"]
        if len(states) != self.num_shards:
            raise CheckpointError(
                f"the checkpoint was saved with {len(states)} replay shards and cannot be continued with "
                f"{self.num_shards}"
            )
        actors = self._started()
        actors.forget()
        self._forget()
        actors.answers([actors.ask(i, "load_state", own, may_take_long=True) for i, own in enumerate(states)])
        self.stored_steps, self.drawn_batches = int(state["stored_steps"]), int(state["drawn_batches"])
        if any(own["kept"] is None for own in states):  # too large for the checkpoint: it is filled anew
            self.stored_steps = self.drawn_batches = 0
        self._earlier_restarts = int(state["restarts"]) - actors.restarts

    def close(self) -> None:
        """Ends the actors."""
        if self._actors:
            self._actors.close()
        self._actors = None
        self._forget()

    def _shard_config(self, shard: int) -> ShardConfig:
        return ShardConfig(
            self.config.replace(capacity=max(self.config.capacity // self.num_shards, 1)),
            sum(own == shard for _, own in self._places.values()),
            self._n_step,
            self._gamma,
            child_seed(self._seed, "replay", shard),
        )

    def _started(self) -> SupervisedActors:
        if self._actors is None:
            self._actors = SupervisedActors(
                SHARD,
                range(self.num_shards),
                self._shard_config,
                what="replay shard",
                num_cpus=0.0,  # its work is little beside that of the workers and the learner
                timeout_s=self._timeout_s,
                max_restarts=self._max_restarts,
            )
        return self._actors


def _portion(in_flight: int) -> int:
    """Returns how many of so many minibatches are asked for in one message."""
    return -(-in_flight // PORTIONS)
