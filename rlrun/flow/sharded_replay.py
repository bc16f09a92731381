"""The dataflow over a replay in shards: fragments into them, minibatches out of them, priorities back."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rlrun.flow.flow import Flow, Operator
from rlrun.flow.left_on_workers import LeftOnWorker
from rlrun.flow.nodes import Delivered, Node, Pending, Polled, Source
from rlrun.flow.operators import LearnResult
from rlrun.flow.replay import Learned, minibatches_due
from rlrun.flow.replay_shards import ReplayShards

if TYPE_CHECKING:
    from rlrun.data.sample_batch import SampleBatch
    from rlrun.rollout.worker_set import WorkerSet

LOOK_EVERY_S = 0.005
"""Seconds for which workers that had no fragment ready are not looked at again while there is a minibatch to learn
from: a look takes a good part of the time that a small network's minibatch does."""


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
        self._look_at = 0.0

    def poll(self) -> Polled:
        """Returns the next fragment's steps."""
        if not self.shards.takes_fragments:
            self.shards.attend()
            if not self.shards.takes_fragments:
                return Pending(*self.shards.awaited(), reasons=("the replay shards or learning do not keep up",))
        if self.shards.minibatches_here and time.monotonic() < self._look_at:
            return Pending(reasons=("there are minibatches to learn from first",))
        polled = self.upstream.poll()
        if not isinstance(polled, Delivered):
            self._look_at = time.monotonic() + LOOK_EVERY_S
            return polled
        self.items += 1
        fragment, worker = polled
        assert worker is not None
        steps = fragment.steps if isinstance(fragment, LeftOnWorker) else int(fragment["valid"].sum())
        self.shards.add(worker, fragment)
        return Delivered(LearnResult(steps), worker)

    def metrics(self) -> dict[str, float]:
        """Returns how much memory, or disk, the shards have set aside, and how many of them were made anew."""
        return {
            "replay/gigabytes": self.shards.num_bytes / 1e9,
            "replay_shard_restarts": float(self.shards.restarts),
        }

    def close(self) -> None:
        """Ends the shards."""
        self.shards.close()

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
    in_flight: int,
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
        """Returns the next minibatch that is here, after asking for others where enough were taken."""
        shards = self.shards
        if shards.are_to_be_asked(self.in_flight):
            shards.attend()  # which costs as much as some minibatches do: not before each of them
            due = minibatches_due(shards.stored_steps, self.training_intensity, self.learning_starts)
            shards.request(self.batch_size, self.workers.env_steps, self.in_flight, due)
        taken = shards.take()
        if taken is None:
            return Pending(*shards.awaited(), reasons=("the replay waits for more steps",))
        shard, batch = taken
        return Delivered(batch, shard)


class TellPriorities(Operator):
    """Has a shard know how much is to be learned from what it drew still; takes pairs of shard and what was learned.

    That travels with the question for its next minibatches, which it then draws by it.
    """

    def __init__(self, shards: ReplayShards) -> None:
        """Takes who is told."""
        self.shards = shards

    def __call__(self, item: tuple[int | None, Learned]) -> Learned:
        """Returns what was learned."""
        shard, learned = item
        if len(learned.priorities):
            assert shard is not None
            self.shards.tell(shard, learned.cells, learned.priorities)
        return learned
