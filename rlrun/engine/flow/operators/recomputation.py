"""Advantages that are recomputed between epochs on a batch with the current network's values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rlrun.engine.data.learning_rows import target_rows
from rlrun.engine.data.sample_batch import LOGGED, SampleBatch

if TYPE_CHECKING:
    from torch import Tensor

    from rlrun.engine.learner.learner import EvaluatedFunction
    from rlrun.engine.policy.actor_critic_outputs import ActorCriticOutputs

RESULTS = ("advantages", "value_targets")
"""Names, or suffixes of names, of the recomputed columns."""

FOR_ROWS = ("valid", "terminateds", "truncateds", "state")
"""Names of the columns that determine how steps are arranged in rows."""


@dataclass(frozen=True)
class RecomputedAdvantages:
    """Function that recomputes a batch's advantages and value targets with the current network's values.

    A recurrent network runs over each whole fragment, from the state recorded at the fragment's first step.

    Attributes:
        batch: Batch [T, B] with the advantages of the first epoch.
        operators: Operators that add the advantages to a batch with `values` [T + 1, B], in order.
        arrange: Function that arranges a batch [T, B] in the learner's rows [S, L].

    Source:
        Andrychowicz et al., "What matters in on-policy reinforcement learning?", arXiv:2006.05990, section 3.5.
    """

    batch: SampleBatch
    operators: Sequence[Callable[[SampleBatch], SampleBatch]]
    arrange: Callable[[SampleBatch], SampleBatch]

    def __call__(self, evaluate: Callable[[EvaluatedFunction, SampleBatch], Any]) -> SampleBatch:
        """Returns the recomputed columns, as rows [S, L].

        Args:
            evaluate: Function that evaluates a function of the network's outputs on rows of experience.
        """
        batch = self.batch
        if LOGGED in batch:  # the rewards of logged actions count, as before the first epoch
            batch = SampleBatch(batch, valid=batch["valid"] | batch[LOGGED])
        rows, packing = target_rows(batch)
        values: dict[str, Any] = evaluate(state_values, rows)
        batch = SampleBatch(batch, **{name: packing.unpack(found.T) for name, found in values.items()})
        for operator in self.operators:
            batch = operator(batch)
        names = [name for name in batch if name.endswith(RESULTS)]
        arranged = self.arrange(SampleBatch({name: batch[name] for name in (*names, *FOR_ROWS) if name in batch}))
        return SampleBatch({name: arranged[name] for name in names})


def state_values(outputs: ActorCriticOutputs, batch: SampleBatch) -> dict[str, Tensor]:
    """Returns state values [S, L] in units of rewards, by column name; a function to pass to `Learner.evaluate`."""
    further = {f"{name}_values": values for name, values in outputs.further_values.items()}
    return {"values": outputs.values_of_rewards, **further}
