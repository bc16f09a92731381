"""Replays in actors of their own, between workers that fill them and a learner that neither waits for the other.

A fragment travels from its worker to its shard without passing through the driver, which only hands on where it lies.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rlrun.actors.supervised_actors import Call, SupervisedActors
from rlrun.data.sample_batch import SampleBatch
from rlrun.errors import CheckpointError
from rlrun.flow.flow import Flow, Operator, operator_label
from rlrun.flow.initial_priorities import PRIORITIES
from rlrun.flow.nodes import Delivered, Node, Pending, Polled, Source
from rlrun.flow.operators import LearnResult
from rlrun.flow.replay import Learned, minibatches_due
from rlrun.flow.sources import AsyncRollouts, OperatorChain
from rlrun.functional.seeding import child_seed
from rlrun.replay.replay_buffer import ReplayBuffer
from rlrun.rollout.rollout_worker import DEFAULT_POLICY

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from rlrun.replay.replay_config import ReplayConfig
    from rlrun.rollout.worker_set import WorkerSet

SHARD = "rlrun.flow.replay_shards:ReplayShard"
"""What makes a shard from its config."""

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


@dataclass(frozen=True)
class LeftOnWorker:
    """A fragment that stays in the object store of its worker's machine until a shard takes it.

    Attributes:
        reference: Ray's reference to it.
        steps: Env steps in it.
    """

    reference: Any
    steps: int


class LeaveOnWorker(Operator):
    """Has a fragment stay where it was collected, and only a reference to it travel; runs on a remote worker."""

    def __call__(self, item: SampleBatch) -> LeftOnWorker:
        """Returns where it lies."""
        import ray

        return LeftOnWorker(ray.put(item), int(item["valid"].sum()))


def held(fragment: LeftOnWorker) -> SampleBatch | None:
    """Returns a fragment that was left on its worker; None if it was lost with that one."""
    import ray
    from ray.exceptions import ObjectLostError

    try:
        batch: SampleBatch = ray.get(fragment.reference)
    except ObjectLostError:
        return None
    return batch


def rollouts_left_on_workers(
    workers: WorkerSet, *operators_on_workers: Callable[[Any], Any], in_flight: int = 2
) -> Flow[LeftOnWorker]:
    """Delivers where the fragments of remote workers lie, as they are ready.

    Args:
        workers: Who samples; they count each fragment once its place is known.
        operators_on_workers: What each batch passes on its worker.
        in_flight: Requests that a worker has at a time.
    """
    chain = OperatorChain((*operators_on_workers, LeaveOnWorker()))
    workers.postprocess(DEFAULT_POLICY, chain)
    on_workers = tuple(operator_label(operator) for operator in chain.operators)
    return Flow(RolloutsLeftOnWorkers(workers, DEFAULT_POLICY, on_workers, in_flight))


class RolloutsLeftOnWorkers(AsyncRollouts):
    """Where fragments lie, in the order in which they are ready."""

    def state(self) -> dict[str, Any]:
        """Returns the fragments themselves that wait, since a reference outlives no process."""
        for item in list(self.here):
            if isinstance(item.value, LeftOnWorker):
                batch = held(item.value)
                self.here.popleft()
                self.here.extend([] if batch is None else [Delivered(batch, item.worker)])
            else:
                self.here.rotate(-1)
        return super().state()


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

    def add(self, lane: int, fragment: SampleBatch | LeftOnWorker) -> int:
        """Puts a fragment by and returns how many steps it holds; 0 if it was lost together with its worker."""
        batch = held(fragment) if isinstance(fragment, LeftOnWorker) else fragment
        return 0 if batch is None else self._replay.add(lane, batch, batch.get(PRIORITIES))

    def sample(self, batch_size: int, env_steps: int) -> SampleBatch | None:
        """Draws a minibatch; None if there is nothing to draw."""
        return self._replay.sample(batch_size, env_steps) if self._replay.num_ready else None

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
        self._forget()

    def _forget(self) -> None:
        self._stored: deque[Call] = deque()
        self._drawn: deque[Call] = deque()
        self._unstored: Counter[int] = Counter()
        self._undrawn: Counter[int] = Counter()
        self._empty: set[int] = set()
        self._owed = 0

    @property
    def restarts(self) -> int:
        """How many shards were made anew, over all sessions of the trial."""
        return self._earlier_restarts + (self._actors.restarts if self._actors else 0)

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

    def request(self, batch_size: int, env_steps: int, in_flight: int, due: float) -> None:
        """Asks for minibatches: of every shard that has something, so many ahead of time.

        Args:
            batch_size: Steps in each.
            env_steps: Env steps so far, for schedules.
            in_flight: How many a shard is asked for at a time.
            due: How many may have been drawn in all.
        """
        for _ in range(in_flight):
            for shard in range(self.num_shards):
                if shard not in self._empty and self._undrawn[shard] < in_flight and self.drawn_batches < due:
                    self._undrawn[shard] += 1
                    self.drawn_batches += 1
                    self._started().ask(shard, "sample", batch_size, env_steps).inbox = self._drawn

    def attend(self) -> None:
        """Takes in what the shards have answered; never waits.

        Raises:
            TrainingFailed: If more shards died than may be made anew.
        """
        self._started().attend()
        while self._stored:
            call = self._stored.popleft()
            self.stored_steps += call.answer
            self._unstored[call.actor] -= 1
        for call in [call for call in self._drawn if call.answer is None]:
            self._drawn.remove(call)
            self._undrawn[call.actor] -= 1
            self.drawn_batches -= 1
            if not self._unstored[call.actor]:  # asked again when there is something new
                self._empty.add(call.actor)

    def take(self) -> tuple[int, SampleBatch] | None:
        """Returns a minibatch that is here, and its shard; None if there is none."""
        if not self._drawn:
            return None
        call = self._drawn.popleft()
        self._undrawn[call.actor] -= 1
        self._owed = max(self._owed - 1, 0)
        return call.actor, SampleBatch(call.answer)

    def update_priorities(self, shard: int, cells: NDArray[np.int64], priorities: NDArray[np.float32]) -> None:
        """Tells a shard how much is to be learned from rows still; nobody waits for it."""
        self._started().post(shard, "update_priorities", cells, priorities)

    def awaited(self) -> tuple[tuple[Any, ...], float]:
        """Returns the Ray references, and the moment, of which one has to come before there is news."""
        return self._started().awaited()

    def state(self) -> dict[str, Any]:
        """Returns everything that is kept; minibatches under way are not."""
        actors = self._started()
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


def store_to_shards(rollouts: Flow[Any], shards: ReplayShards) -> Flow[LearnResult]:
    """Hands fragments on to their workers' shards; while those or learning do not keep up, none are pulled."""
    return Flow(StoreToShards(rollouts.node, shards))


class StoreToShards(Node):
    """Fragment -> how many steps it holds, once it is on its way into its shard."""

    kind = "for_each"

    def __init__(self, upstream: Node, shards: ReplayShards) -> None:
        """Takes where fragments come from and where they go."""
        settings = {"shards": shards.num_shards, "capacity": shards.config.capacity}
        super().__init__("StoreToShards", settings, (upstream,))
        self.upstream = upstream
        self.shards = shards

    def poll(self) -> Polled:
        """Returns the next fragment's steps."""
        if not self.shards.takes_fragments:
            self.shards.attend()
            if not self.shards.takes_fragments:
                return Pending(*self.shards.awaited(), reasons=("the replay shards or learning do not keep up",))
        polled = self.upstream.poll()
        if not isinstance(polled, Delivered):
            return polled
        self.items += 1
        fragment, worker = polled
        assert worker is not None
        steps = fragment.steps if isinstance(fragment, LeftOnWorker) else int(fragment["valid"].sum())
        self.shards.add(worker, fragment)
        return Delivered(LearnResult(steps), worker)

    @property
    def stateful(self) -> bool:
        """Always: what the shards keep."""
        return True

    def state(self) -> dict[str, Any]:
        """Returns everything that is kept."""
        return self.shards.state()

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Takes over what `state` returned."""
        self.shards.load_state(state)


def replay(
    shards: ReplayShards,
    workers: WorkerSet,
    *,
    batch_size: int,
    learning_starts: int,
    training_intensity: float,
    in_flight: int = 4,
) -> Flow[SampleBatch]:
    """Delivers minibatches as fast as they are pulled; the worker of each is its shard.

    Args:
        shards: Where they are drawn, of all in turn.
        workers: Whose env steps schedules follow.
        batch_size: Steps in each.
        learning_starts: Steps that are put by before the first.
        training_intensity: Most minibatches for every step after that.
        in_flight: How many each shard is asked for ahead of time.
    """
    return Flow(Replay(shards, workers, batch_size, learning_starts, training_intensity, in_flight))


class Replay(Source):
    """Minibatches out of shards; see `replay`."""

    def __init__(
        self,
        shards: ReplayShards,
        workers: WorkerSet,
        batch_size: int,
        learning_starts: int,
        training_intensity: float,
        in_flight: int,
    ) -> None:
        """Takes what `replay` takes."""
        super().__init__(
            "replay",
            {
                "shards": shards.num_shards,
                "batch_size": batch_size,
                "learning_starts": learning_starts,
                "in_flight": in_flight,
            },
        )
        self.shards = shards
        self.workers = workers
        self.batch_size = batch_size
        self.learning_starts = learning_starts
        self.training_intensity = training_intensity
        self.in_flight = in_flight

    def next_item(self) -> Polled:
        """Returns the next minibatch that is here, after asking for others."""
        shards = self.shards
        shards.attend()
        taken = shards.take()
        due = minibatches_due(shards.stored_steps, self.training_intensity, self.learning_starts)
        shards.request(self.batch_size, self.workers.env_steps, self.in_flight, due)
        if taken is None:
            return Pending(*shards.awaited(), reasons=("the replay waits for more steps",))
        shard, batch = taken
        return Delivered(batch, shard)


class TellPriorities(Operator):
    """Tells a shard how much is to be learned from what it had drawn still; takes pairs of shard and what was learned.

    Nobody waits for it.
    """

    def __init__(self, shards: ReplayShards) -> None:
        """Takes who is told."""
        self.shards = shards

    def __call__(self, item: tuple[int | None, Learned]) -> Learned:
        """Returns what was learned."""
        shard, learned = item
        if len(learned.priorities):
            assert shard is not None
            self.shards.update_priorities(shard, learned.cells, learned.priorities)
        return learned
