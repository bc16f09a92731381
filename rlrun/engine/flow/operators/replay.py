"""Operators for replay buffers: storing fragments, normalizing minibatches and updating priorities."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from typing_extensions import override

from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.data.views import shown, with_new_observation
from rlrun.engine.flow.flow import Operator, StatefulOperator
from rlrun.engine.flow.nodes import Pending
from rlrun.engine.flow.operators.minibatches import TrainedMinibatch
from rlrun.engine.policy.observation_filter import ObservationFilter
from rlrun.engine.replay.replay import GIGABYTES, Replay

if TYPE_CHECKING:
    from rlrun.engine.actors.batch_ref import BatchRef
    from rlrun.engine.flow.trainee import Trainee

LOOK_EVERY_S = 0.005
"""Seconds between polls of busy workers while minibatches are ready: a poll takes much of the time of a small SGD
step."""


class StoreToReplay(StatefulOperator):
    """Stores each fragment in a replay buffer; takes pairs (worker index, fragment).

    It pulls no fragments while the replay buffer or the learner lags behind (backpressure). It also saves the replay
    buffer in checkpoints, and ends the buffer's processes.
    """

    declared_metrics = (GIGABYTES,)

    def __init__(self, replay: Replay) -> None:
        self.replay = replay
        self._look_at = 0.0
        self._looked_in_vain = False

    @override
    def settings(self) -> dict[str, Any]:
        return self.replay.settings()

    @override
    def metrics(self) -> dict[str, float]:
        """Returns the replay buffer's metrics, such as the memory or disk space that it uses."""
        return self.replay.metrics()

    @override
    def pending(self) -> Pending | None:
        """Returns the condition to wait for before the next fragment can be stored; None if it can be stored now."""
        replay = self.replay
        if not replay.accepts_fragments:
            replay.attend()
            if not replay.accepts_fragments:
                return Pending(*replay.awaited(), reasons=("the replay shards or the learner cannot keep up",))
        if not replay.has_minibatch:
            return None
        now = time.monotonic()
        if self._looked_in_vain and now < self._look_at:
            return Pending(reasons=("the learner still has minibatches to process",))
        self._look_at, self._looked_in_vain = now + LOOK_EVERY_S, True
        return None

    @override
    def __call__(self, item: tuple[int | None, SampleBatch | BatchRef]) -> SampleBatch | BatchRef:
        """Stores the fragment and returns it."""
        self._looked_in_vain = False
        worker, fragment = item
        self.replay.add(worker, fragment)
        return fragment

    @override
    def state(self) -> dict[str, Any]:
        """Returns the replay buffer's state, for checkpoints."""
        return self.replay.state()

    @property
    @override
    def unsaved(self) -> str:
        """Reason why a resumed run would differ: checkpoints do not contain the whole replay buffer; "" if they do."""
        return "" if self.replay.is_saved else "the replay buffer is not saved completely"

    @override
    def load_state(self, state: dict[str, Any]) -> None:
        self.replay.load_state(state)

    @override
    def close(self) -> None:
        """Ends the processes of the replay buffer, if it has any."""
        self.replay.close()


class NormalizeObservations(Operator):
    """Normalizes a minibatch's raw observations with the policy's running mean and variance."""

    def __init__(self, trainee: Trainee) -> None:
        self.trainee = trainee
        self._filter: ObservationFilter | None = None

    @override
    def __call__(self, item: SampleBatch) -> SampleBatch:
        """Returns the minibatch with normalized `obs`, and normalized `next_obs` if present."""
        if self._filter is None:
            self._filter = ObservationFilter(shown(self.trainee.policy.leaves))
        self._filter.load(self.trainee.filters.moments)
        kept = {name: item[name] for name in ("obs", "next_obs") if name in item}
        seen = {name: with_new_observation(tree, self._filter(shown(tree))) for name, tree in kept.items()}
        return SampleBatch(item, **seen)


class UpdatePriorities(Operator):
    """Updates the priorities of a minibatch's rows in the replay buffer (prioritized experience replay)."""

    def __init__(self, replay: Replay) -> None:
        self.replay = replay

    @override
    def __call__(self, item: TrainedMinibatch) -> TrainedMinibatch:
        self.replay.update_priorities(item.indices, item.priorities)
        return item
