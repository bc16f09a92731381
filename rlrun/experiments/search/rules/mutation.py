"""Explore step of population-based training (arXiv:1711.09846, section 4: perturb or resample)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rlrun.experiments.spec.search_space import SearchSpace
from rlrun.experiments.spec.tuning import PbtConfig

if TYPE_CHECKING:
    import numpy as np

    from rlrun.experiments.search.lineage import How


def explore(settings: PbtConfig, params: Mapping[str, Any], draws: np.random.Generator) -> tuple[dict[str, Any], How]:
    """Perturbs or resamples the hyperparameters of a parent (explore step of PBT).

    Each hyperparameter is resampled with `resample_probability`. Otherwise a number is multiplied by one of
    `perturbation_factors` and clipped to its range, and a choice moves to a neighbour. Random numbers are drawn in the
    order of paths, so that the order in the spec has no effect.

    Args:
        settings: Settings of the scheduler.
        params: The parent's settings by path.
        draws: Generator of random draws.

    Returns:
        The new settings, and how they changed.
    """
    found: dict[str, Any] = {}
    ways: set[How] = set()
    for path, space in sorted(settings.spaces.items()):
        resamples = draws.random() < settings.resample_probability or not _can_move(space, params[path])
        found[path] = (
            space.draw(draws) if resamples else _moved(space, params[path], settings.perturbation_factors, draws)
        )
        ways.add("resampled" if resamples else "perturbed")
    return found, "mixed" if len(ways) > 1 else next(iter(ways))


def _can_move(space: SearchSpace, value: Any) -> bool:
    if not space.kind.parameters:
        return value in space.arguments
    return isinstance(value, int | float) and not isinstance(value, bool)


def _moved(space: SearchSpace, value: Any, factors: tuple[float, float], draws: np.random.Generator) -> Any:
    if not space.kind.parameters:
        place = space.arguments.index(value) + (1 if draws.random() < 0.5 else -1)
        return space.arguments[min(max(place, 0), len(space.arguments) - 1)]
    return space.fitted(value * factors[int(draws.integers(2))])
