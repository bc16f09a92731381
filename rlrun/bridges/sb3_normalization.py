"""Conversion of Stable-Baselines3's `VecNormalize` statistics, saved as a pickle, to rlrun's observation filter."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlrun.engine.functional.moments import Moments
from rlrun.engine.messages.errors import UsageError
from rlrun.engine.policy.observation_filter import ObservationFilter

TOLERANCE = 1e-5
"""Upper bound of the difference between an observation that SB3 and rlrun have normalised, relative above 1."""

MOST_BYTES = 2**28
"""Upper bound of the unpacked size of the file of numbers."""

_NAMES = ("mean", "var", "count", "clip_obs", "epsilon")

LINES = """\
import pickle, numpy as np
with open({source!r}, "rb") as file:
    norm = pickle.load(file)
rms = norm.obs_rms
np.savez({target!r}, mean=rms.mean, var=rms.var, count=rms.count, clip_obs=norm.clip_obs, epsilon=norm.epsilon)"""
"""Python program that turns a pickled `VecNormalize` into a file of numbers, where SB3 is installed."""


def lines_for(pickled: Path) -> str:
    """Python program that converts a pickled `VecNormalize` to a file of numbers, and its shell command."""
    target = pickled.with_suffix(".npz")
    return LINES.format(source=str(pickled), target=str(target))


def filter_state(path: Path, leaves: Any) -> dict[str, Any]:
    """Observation filter state with the statistics of a `VecNormalize`.

    Args:
        path: Path of the npz file.
        leaves: Tree of `ObservationLeaf` of the policy.

    Raises:
        UsageError: The file does not hold such statistics, or its formula normalizes differently than rlrun's.
    """
    numbers = _numbers(path)
    found = ObservationFilter(leaves)
    name = found.names
    if not isinstance(name, str) or not name or leaves.shape != numbers["mean"].shape:
        shape = getattr(leaves, "shape", "several parts")
        raise UsageError(f"{path}: its mean has shape {numbers['mean'].shape}, and the policy's observations {shape}")
    count = max(float(numbers["count"]), 2.0)
    moments = Moments(count, numbers["mean"], numbers["var"] * count)
    found.load({name: moments})
    # Around the mean, and beyond the bounds of what is clipped.
    deviations = np.array([-20.0, -3.0, -1.0, 0.0, 0.5, 2.0, 20.0]).reshape(-1, *[1] * numbers["mean"].ndim)
    spread = np.sqrt(numbers["var"] + numbers["epsilon"])
    observations = (numbers["mean"] + deviations * spread).astype(np.float32)
    bound = float(numbers["clip_obs"])
    foreign = np.clip((observations - numbers["mean"]) / spread, -bound, bound)
    error = float((np.abs(found(observations) - foreign) / np.maximum(1.0, np.abs(foreign))).max())
    if not error <= TOLERANCE:
        raise UsageError(
            f"{path}: rlrun's filter (epsilon 1e-8, clipped at 10) differs by {error:.1g} from VecNormalize with "
            f"epsilon {float(numbers['epsilon']):g} and clip_obs {bound:g}; at most {TOLERANCE:g} is taken"
        )
    return {name: moments.state()}


def _numbers(path: Path) -> dict[str, NDArray[np.float64]]:
    if path.suffix == ".pkl":
        raise UsageError(
            f"{path}: is a pickle, which may run anything when it is read. Where your SB3 is installed, run these "
            f"lines, and give --normalization {path.with_suffix('.npz')}:\n\n{lines_for(path)}\n"
        )
    try:
        with zipfile.ZipFile(path) as archive:
            if sum(member.file_size for member in archive.infolist()) > MOST_BYTES:
                raise ValueError(f"it unpacks to more than {MOST_BYTES:,} bytes")
        with np.load(path, allow_pickle=False) as loaded:
            numbers = {name: np.asarray(loaded[name], np.float64) for name in _NAMES}
    except FileNotFoundError:
        raise UsageError(f"{path}: there is no such file") from None
    except Exception as error:  # of zipfile, zlib and NumPy for a damaged or crafted file
        raise UsageError(f"{path}: cannot be read: {str(error)[:200]}") from error
    is_number = all(numbers[name].size == 1 for name in _NAMES[2:])
    is_finite = all(np.isfinite(array).all() for array in numbers.values())
    if not is_number or not is_finite or numbers["mean"].shape != numbers["var"].shape or (numbers["var"] < 0).any():
        raise UsageError(f"{path}: mean and var must have one shape, and the numbers be finite")
    return {name: array if name in ("mean", "var") else array.reshape(()) for name, array in numbers.items()}
