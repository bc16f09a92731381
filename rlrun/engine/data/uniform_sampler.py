"""Uniform sampling from any space, by transforming pre-drawn uniform numbers in [0, 1)."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
from gymnasium import Space
from numpy.typing import NDArray

from rlrun.engine.data.space_kinds import choice_ranges, known_kind, space_tree
from rlrun.engine.data.tree import leaves, map_tree

Array = NDArray[Any]


def uniform_choices(draws: Array, number: int, mask: Array | None = None) -> NDArray[np.int64]:
    """Samples one of the allowed choices (0 to `number` - 1) uniformly in each of N rows, [N].

    Args:
        draws: Uniform random numbers in [0, 1), [N].
        number: Number of choices.
        mask: Mask of the allowed choices, [N, number]; None if all are allowed.
    """
    return (draws * number).astype(np.int64) if mask is None else uniform_allowed(draws, mask)


def uniform_allowed(fractions: Array, mask: Array) -> NDArray[np.int64]:
    """Samples one of the allowed actions uniformly in each of B rows, [B]; 0 where no action is allowed.

    Args:
        fractions: Uniform random numbers in [0, 1), [B].
        mask: Mask of the allowed actions, [B, A].
    """
    allowed_up_to = np.cumsum(mask != 0, axis=-1)
    chosen = (fractions * allowed_up_to[:, -1]).astype(np.int64)
    result: NDArray[np.int64] = (allowed_up_to > chosen[:, None]).argmax(-1)
    return result


class UniformSampler:
    """Uniform sampler of a space's elements, with an optional action mask for discrete choices.

    Unbounded spaces have no uniform distribution: numbers with one bound are drawn from an exponential distribution,
    numbers without bounds from a logistic one.

    Args:
        space: The space.

    Attributes:
        num_draws: Number of uniform numbers per element, D.
    """

    def __init__(self, space: Space[Any]) -> None:
        tree = space_tree(space)
        parts = [_Choices(part) if known_kind(part).meaning != "numbers" else _Numbers(part) for part in leaves(tree)]
        ends = itertools.accumulate(part.num_draws for part in parts)
        mask_ends = itertools.accumulate(part.num_masked for part in parts)
        self._parts = [
            (part, slice(end - part.num_draws, end), slice(mask_end - part.num_masked, mask_end))
            for part, end, mask_end in zip(parts, ends, mask_ends, strict=True)
        ]
        self.num_draws = sum(part.num_draws for part in parts)
        numbers = itertools.count()
        self._numbers = map_tree(lambda _: next(numbers), tree)

    def __call__(self, draws: Array, mask: Array | None = None) -> Any:
        """Samples elements of the space, as a tree of [N, ...].

        Args:
            draws: Numbers from 0 to 1, [N, D].
            mask: Concatenated masks of all choices' allowed values, [N, A]; None if all are allowed.
        """

        def made(number: int) -> Array:
            part, own, allowed = self._parts[number]
            return part.made(draws[:, own], mask[:, allowed] if mask is not None and part.num_masked else None)

        return map_tree(made, self._numbers)


class _Choices:
    """Uniform sampler of discrete choices or bits; a mask applies to choices only."""

    def __init__(self, space: Space[Any]) -> None:
        self.shape, self.dtype = known_kind(space).form(space)
        self.sizes, starts = choice_ranges(space)
        self.starts = np.array(starts)
        self.num_draws = len(self.sizes)
        self.num_masked = sum(self.sizes) if known_kind(space).meaning == "choices" else 0
        self._cuts = np.cumsum(self.sizes)[:-1]

    def made(self, draws: Array, mask: Array | None) -> Array:
        allowed = [None] * len(self.sizes) if mask is None else np.split(mask, self._cuts, axis=1)
        columns = zip(draws.T, self.sizes, allowed, strict=True)
        chosen = np.stack([uniform_choices(*column) for column in columns], axis=-1)
        made: Array = (chosen + self.starts).astype(self.dtype).reshape(len(draws), *self.shape)
        return made


class _Numbers:
    """Sampler of numbers: uniform if bounded, exponential if half-bounded, logistic if unbounded."""

    num_masked = 0

    def __init__(self, space: Space[Any]) -> None:
        kind = known_kind(space)
        self.shape, self.dtype = kind.form(space)
        self.low, self.high = (np.broadcast_to(bound, self.shape).ravel() for bound in kind.bounds(space))
        self.num_draws = math.prod(self.shape)
        self._is_low, self._is_high = np.isfinite(self.low), np.isfinite(self.high)
        self._is_bounded = bool((self._is_low & self._is_high).all())

    def made(self, draws: Array, mask: Array | None) -> Array:
        if np.issubdtype(self.dtype, np.integer):
            first, number = self.low.astype(np.float64), self.high.astype(np.float64) - self.low + 1
            values = np.floor(first + draws * number).clip(self.low, self.high)
        elif self._is_bounded:  # this form avoids overflow in the difference of the bounds
            values = self.low * (1 - draws) + self.high * draws
        else:
            values = self._sample_unbounded(draws)
        made: Array = values.astype(self.dtype).reshape(len(draws), *self.shape)
        return made

    def _sample_unbounded(self, draws: Array) -> Array:
        """Samples numbers, some of which are half-bounded or unbounded."""
        low, high = np.where(self._is_low, self.low, 0), np.where(self._is_high, self.high, 0)
        inner = draws.clip(np.finfo(draws.dtype).tiny)
        exponential = -np.log1p(-draws)
        return np.select(
            [self._is_low & self._is_high, self._is_low, self._is_high],
            [low * (1 - draws) + high * draws, low + exponential, high - exponential],
            np.log(inner) + exponential,
        )
