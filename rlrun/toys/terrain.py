"""Random toroidal maps of grass, forest, water and stone."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

GRASS, FOREST, FOOD, WATER, STONE = range(5)
"""Kinds of tiles; `FOOD` is forest that can be eaten from. Nobody enters `WATER` and those after it."""

_SMOOTHNESS = 3.0
_WATER_SHARE, _STONE_SHARE, _FOREST_SHARE = 0.12, 0.1, 0.25


def random_terrain(generator: np.random.Generator, size: int) -> NDArray[np.uint8]:
    """Draws a map [S, S]: lakes in the valleys and rocks on the hills of one smooth noise, forests by another."""
    height, growth = _smooth_noise(generator, size), _smooth_noise(generator, size)
    tiles = np.where(growth > np.quantile(growth, 1.0 - _FOREST_SHARE), FOOD, GRASS).astype(np.uint8)
    tiles[height < np.quantile(height, _WATER_SHARE)] = WATER
    tiles[height > np.quantile(height, 1.0 - _STONE_SHARE)] = STONE
    return tiles


def shores(tiles: NDArray[np.uint8]) -> NDArray[np.bool_]:
    """Whether each tile has water above, below, to the left or to the right, [S, S]."""
    water = tiles == WATER
    above_or_below = np.roll(water, 1, 0) | np.roll(water, -1, 0)
    beside: NDArray[np.bool_] = above_or_below | np.roll(water, 1, 1) | np.roll(water, -1, 1)
    return beside


def _smooth_noise(generator: np.random.Generator, size: int) -> NDArray[np.float64]:
    """White noise [S, S], smoothed by a Gaussian around the torus."""
    frequencies = np.fft.fftfreq(size)
    squares = frequencies[:, None] ** 2 + frequencies[None, :] ** 2
    damping = np.exp(-2.0 * (np.pi * _SMOOTHNESS) ** 2 * squares)
    noise: NDArray[np.float64] = np.fft.ifft2(np.fft.fft2(generator.normal(size=(size, size))) * damping).real
    return noise
