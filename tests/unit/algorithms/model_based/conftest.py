"""Fixtures for tests of learned dynamics."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

import rlrun

SMALL: dict[str, Any] = {
    "compile": False,
    "minibatch_size": 32,
    "learning_starts": 40,
    "min_env_steps_per_iteration": 60,
    "training_intensity": 0.5,
    "rollouts_per_env_step": 2,
    "real_ratio": 0.1,
    "model": {"hiddens": [8]},
}
DYNAMICS: dict[str, Any] = {
    "num_members": 4,
    "num_elites": 2,
    "hiddens": [8],
    "minibatch_size": 16,
    "max_epochs": 3,
    "fit_interval": 20,
}


@pytest.fixture
def mbpo() -> Iterator[Callable[..., rlrun.Training]]:
    """Makes MBPO on Pendulum with small networks; `dynamics` has the settings of the model."""
    with ExitStack() as stack:

        def make(dynamics: dict[str, Any] | None = None, **settings: Any) -> rlrun.Training:
            config = {**SMALL, **settings, "dynamics": {**DYNAMICS, **(dynamics or {})}}
            return stack.enter_context(rlrun.Training("Pendulum-v1", rlrun.MBPO(**config), seed=100))

        yield make
