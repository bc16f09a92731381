"""Samplers that settings can name: uniform, prioritized, or a user's class (NumPy)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from rlrun.engine.messages.errors import UsageError
from rlrun.engine.replay.replay_config import ReplayConfig
from rlrun.engine.replay.row_sampler import Rows, RowSampler
from rlrun.engine.replay.stores import Indices
from rlrun.engine.settings.registry import load_internal, load_object

PARTS = {
    "prioritized": "rlrun.engine.replay.prioritized_sampler:PrioritizedSampler",
    "refusal of settings": "rlrun.engine.hook:refuse_other_settings",
}
"""Import paths of prioritized sampling, and of the function that checks the settings of custom samplers."""


class UniformSampler(RowSampler):
    """Sampler that chooses all rows with equal probability."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows

    @override
    def add(self, indices: Indices, priorities: NDArray[Any] | None) -> None:
        pass

    @override
    def remove(self, indices: Indices) -> None:
        pass

    @override
    def draw(
        self, generator: np.random.Generator, batch_size: int, number: int, env_steps: int
    ) -> tuple[Indices, NDArray[np.float32]]:
        return self._rows.draw(generator, batch_size, number), np.ones(batch_size * number, np.float32)


def sampler_of(config: ReplayConfig) -> tuple[type[RowSampler], Mapping[str, Any]]:
    """Returns the sampler class that a replay buffer's settings name, and the keyword arguments for its constructor.

    Raises:
        UsageError: There is no such class, it is not a sampler, or it does not accept the arguments.
        UserCodeError: The class's module raises while it is imported.
    """
    if config.sampling == "uniform":
        return UniformSampler, {}
    if config.sampling == "prioritized":
        names = ("alpha", "beta", "epsilon")
        return load_internal(PARTS["prioritized"]), {name: getattr(config, f"priority_{name}") for name in names}
    named = {config.sampling: {}} if isinstance(config.sampling, str) else config.sampling
    ((path, settings),) = named.items()
    found = load_object(path, "sampler")
    if not (isinstance(found, type) and issubclass(found, RowSampler)):
        raise UsageError(f"'{path}' is not a RowSampler: derive it from rlrun.plugin.RowSampler")
    if missing := " and ".join(sorted(found.__abstractmethods__)):
        raise UsageError(
            f"the sampler '{path}' does not define {missing}; a sampler defines all abstract methods of RowSampler"
        )
    load_internal(PARTS["refusal of settings"])(f"the sampler '{path}'", found, settings, "rows")
    return found, settings


def make_sampler(config: ReplayConfig, rows: Rows) -> RowSampler:
    """Creates the sampler that the settings of a replay buffer name."""
    found, settings = sampler_of(config)
    make: Callable[..., RowSampler] = found
    return make(rows, **settings)
