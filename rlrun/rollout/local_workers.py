"""The one rollout worker of a trial without remote ones, in the trial's own process."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rlrun.rollout.rollout import Rollout
from rlrun.rollout.sampler import Sampler
from rlrun.rollout.sampler_configs import SamplerConfigs
from rlrun.rollout.worker_config import LOCAL_INDEX

if TYPE_CHECKING:
    from rlrun.policy.weights import Weights


class LocalWorkers:
    """Samples in this process, a fragment for each request, when `arrived` is called; ray is never imported.

    Args:
        configs: What the worker is made from.

    Attributes:
        sampler: The worker with its operators.
        restarts: How many workers were made anew: never any.
    """

    restarts = 0

    def __init__(self, configs: SamplerConfigs) -> None:
        self.sampler = Sampler(configs.of(LOCAL_INDEX))
        self._configs = configs
        self._requests = 0

    def set_weights(self, weights: Mapping[str, Weights], only: int | None = None) -> None:
        """Gives the worker new weights, by policy."""
        self.sampler.set_weights(weights)

    def set_env_kwargs(self, kwargs: Mapping[str, Any]) -> None:
        """Gives the envs what a curriculum says, from each one's next episode on."""
        self.sampler.set_env_kwargs(kwargs)

    def request(self, deliverer: int) -> None:
        """Asks for a fragment."""
        self._requests += 1

    def arrived(self) -> list[Rollout]:
        """Makes the next fragment that was asked for."""
        if not self._requests:
            return []
        self._requests -= 1
        rollout = self.sampler.sample()
        self._configs.note([rollout])
        return [rollout]

    def awaited(self) -> tuple[tuple[Any, ...], float]:
        """Returns that there is nothing to wait for."""
        return (), math.inf

    def states(self) -> list[Any]:
        """Returns where the worker is."""
        return [self.sampler.state()]

    def load_states(self, states: Sequence[Any], due: Sequence[int]) -> int:
        """Brings the worker back to where it was; requests are dropped."""
        self._requests = 0
        self._configs.load_due((LOCAL_INDEX,), due)
        (state,) = states
        return self.sampler.load_state(state)

    def close(self) -> None:
        """Ends the worker."""
        self.sampler.close()
