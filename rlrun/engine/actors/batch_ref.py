"""References to fragments (rollouts) that stay in Ray's object store on the machine where they were collected."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rlrun.engine.data.sample_batch import SampleBatch


@dataclass(frozen=True)
class BatchRef:
    """Reference to a fragment (a rollout), which stays in Ray's object store on its worker's machine until fetched.

    Attributes:
        reference: Ray's reference to the fragment.
        steps: Number of env steps in the fragment.
    """

    reference: Any
    steps: int

    def fetch(self) -> SampleBatch | None:
        """Returns the fragment; None if it was lost together with its worker."""
        import ray
        from ray.exceptions import ObjectLostError

        try:
            batch: SampleBatch = ray.get(self.reference)
        except ObjectLostError:
            return None
        return batch
