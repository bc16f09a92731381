"""Fragments into a replay, minibatches as the network is to see them, priorities back."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from typing_extensions import override

from rlrun.data.sample_batch import SampleBatch
from rlrun.data.views import shown, with_shown
from rlrun.flow.flow import Operator, StatefulOperator
from rlrun.flow.nodes import Pending
from rlrun.flow.operators.training import TrainedMinibatch
from rlrun.policy.observation_filter import ObservationFilter

if TYPE_CHECKING:
    from rlrun.actors.batch_ref import BatchRef
    from rlrun.flow.trainee import Trainee
    from rlrun.metric import Metric
    from rlrun.replay.replay import Replay

LOOK_EVERY_S = 0.005
"""Seconds for which workers that had no fragment ready are not looked at again while there is a minibatch to learn
from: a look takes a good part of the time that a small network's minibatch does."""


class StoreToReplay(StatefulOperator):
    """Stores each fragment in a replay; works on pairs of worker and fragment.

    While the replay, or learning from it, does not keep up, no fragments are pulled. The operator keeps the replay's
    state, and ends its processes.
    """

    def __init__(self, replay: Replay) -> None:
        self.replay = replay
        self._look_at = 0.0
        self._looked_in_vain = False

    @override
    def settings(self) -> dict[str, Any]:
        return self.replay.settings()

    @property
    @override
    def declared_metrics(self) -> Sequence[Metric]:
        """What the replay reports."""
        return self.replay.declared_metrics

    @override
    def metrics(self) -> dict[str, float]:
        """Returns how much memory, or disk, is set aside, and what else the replay reports."""
        return self.replay.metrics()

    @override
    def pending(self) -> Pending | None:
        """Returns what has to happen before the next fragment is welcome."""
        replay = self.replay
        if not replay.accepts_fragments:
            replay.attend()
            if not replay.accepts_fragments:
                return Pending(*replay.awaited(), reasons=("the replay shards or learning do not keep up",))
        if not replay.has_minibatch:
            return None
        now = time.monotonic()
        if self._looked_in_vain and now < self._look_at:
            return Pending(reasons=("there are minibatches to learn from first",))
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
        """Returns everything that is kept."""
        return self.replay.state()

    @property
    @override
    def unsaved(self) -> str:
        """The experience, unless checkpoints hold it."""
        return "" if self.replay.is_saved else "the replay buffer is not saved whole"

    @override
    def load_state(self, state: dict[str, Any]) -> None:
        self.replay.load_state(state)

    @override
    def close(self) -> None:
        """Ends the replay's processes."""
        self.replay.close()


class NormalizeObservations(Operator):
    """Shifts and scales a minibatch's observations by the present statistics: a replay keeps raw ones."""

    def __init__(self, trainee: Trainee) -> None:
        self.trainee = trainee
        self._filter: ObservationFilter | None = None

    @override
    def __call__(self, item: SampleBatch) -> SampleBatch:
        """Returns the minibatch with `obs`, and `next_obs` where it has them, as the network is to see them."""
        if self._filter is None:
            self._filter = ObservationFilter(shown(self.trainee.policy.leaves))
        self._filter.load(self.trainee.filters.moments)
        kept = {name: item[name] for name in ("obs", "next_obs") if name in item}
        seen = {name: with_shown(tree, self._filter(shown(tree))) for name, tree in kept.items()}
        return SampleBatch(item, **seen)


class UpdatePriorities(Operator):
    """Sets the priorities of the rows of a minibatch that was learned from."""

    def __init__(self, replay: Replay) -> None:
        self.replay = replay

    @override
    def __call__(self, item: TrainedMinibatch) -> TrainedMinibatch:
        self.replay.update_priorities(item.indices, item.priorities)
        return item
