"""SVG pictures that compare open-loop predictions of a world model with the observations."""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rlrun.algorithms.dreamer.networks import DreamerNetworks
from rlrun.algorithms.dreamer.symlog import symexp
from rlrun.algorithms.dreamer.world_model import WORLD, States
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.policy.action_spaces.action_space import Floats

MOST_CURVES = 6
"""Maximum number of observation components drawn as curves."""

MOST_FRAMES = 16
"""Number of evenly spaced frames drawn from an image sequence."""

WIDTH, HEIGHT, GAP, HEAD, FOOT = 960, 110, 34, 54, 40
"""Layout in pixels: width of the picture, height of a panel, gap above it for its name, heights of heading and foot."""

LEFT, RIGHT = 70, 12
"""Margins of the curves in pixels."""

LEAST_SPAN = 0.25
"""Minimum height of a panel, as a fraction of the largest absolute value of its kind, so that noise looks small."""

STYLE = "<style>text{fill:#555} @media (prefers-color-scheme: dark){text{fill:#a8b0b8}}</style>"


def observed_and_imagined(outputs: DreamerNetworks, batch: SampleBatch) -> dict[str, Any]:
    """Open-loop prediction: infers states from the first half of a sequence, and predicts the rest from actions.

    Args:
        outputs: Networks of DreamerV3.
        batch: One sequence [1, L] of a minibatch, with `latent_noise` [1, L + 1, K].

    Returns:
        `numbers`: pair of observed and decoded vectors [L + 1, D], empty without vectors. `images` and
        `decoded_images`: observed and decoded images [L + 1, channels, H, W], for each image leaf. `rewards` and
        `expected_rewards`: observed and predicted rewards, [L + 1]. `is_known`: mask [L + 1] of the observations to
        draw, up to the end of the episode in which the prediction began. `is_behind`: mask [L + 1] of the drawn
        observations that follow a recorded step, so that the reward is known.
    """
    model, rows = outputs.model, outputs.rows(batch)
    half = rows.counts.shape[1] // 2
    seen, _ = outputs.observe(batch, rows)
    state = States(seen.recurrent[:, half - 1], seen.latent[:, half - 1])
    features = [*seen.features[:, :half].unbind(1)]
    for t in range(half, rows.counts.shape[1]):
        state = model.imagine(state, rows.actions[:, t], batch["latent_noise"][:, t])
        features.append(state.features)
    found = torch.stack(features, 1)
    goes_on = torch.cat([torch.ones_like(rows.starts[:, :half]), 1 - rows.starts[:, half:]], 1).cumprod(1)
    numbers: tuple[Tensor, ...] = ()
    if model.spec.dense_width:
        decoded = model.head(f"{WORLD}decoder", found)
        numbers = (symexp(model.numbers(batch["obs"]))[0], symexp(decoded)[0])
    images = model.pixels(batch["obs"]) if model.spec.images else ()
    decoded_images = model.decode_images(found) if model.spec.images else ()
    return {
        "numbers": numbers,
        "images": tuple(images),
        "decoded_images": tuple(decoded_images),
        "rewards": rows.rewards[0],
        "expected_rewards": outputs.rewards(found)[0],
        "is_known": (rows.counts * goes_on)[0] > 0,
        "is_behind": (rows.is_behind * goes_on)[0] > 0,
    }


def picture_of(found: Mapping[str, Any]) -> str:
    """Returns an SVG image that compares observations and rewards with those that the world model imagined.

    Args:
        found: Results of `observed_and_imagined`, converted to NumPy arrays.
    """
    known: NDArray[np.bool_] = found["is_known"]
    panels = [("reward", found["rewards"], found["expected_rewards"], found["is_behind"])]
    if found["numbers"]:
        shown, expected = found["numbers"]
        width = shown.shape[1]
        names = [f"component {i} of {width} of the observation" for i in range(min(width, MOST_CURVES))]
        panels += [(name, shown[:, i], expected[:, i], known) for i, name in enumerate(names)]
    least = [LEAST_SPAN * _largest(panels[:1]), *[LEAST_SPAN * _largest(panels[1:])] * (len(panels) - 1)]
    parts, top = [_words(LEFT, 20, "gray: observed; blue: decoded; orange: imagined from the actions alone")], HEAD
    for images, decoded in zip(found["images"], found["decoded_images"], strict=True):
        strip, height = _strip(images, decoded, known, top)
        parts += [_words(LEFT, top - 8, "top: observed; bottom: decoded (left half) and imagined (right half)"), strip]
        top += height + GAP
    for panel, span in zip(panels, least, strict=True):
        parts.append(_panel(*panel, top, span))
        top += HEIGHT + GAP
    parts.append(_time_axis(len(known), top - GAP))
    top += FOOT - GAP
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {top}" width="{WIDTH}" height="{top}" '
        f'font-family="sans-serif" font-size="14">{STYLE}{"".join(parts)}</svg>\n'
    )


def _largest(panels: Sequence[tuple[str, Floats, Floats, NDArray[np.bool_]]]) -> float:
    """Largest absolute value that some panels draw, 0 without any."""
    drawn = [np.abs(values[rows]) for _, observed, expected, rows in panels for values in (observed, expected)]
    return max((float(values.max()) for values in drawn if len(values)), default=0.0)


def _places(length: int) -> NDArray[np.float64]:
    """Horizontal positions of the steps of a sequence."""
    return np.linspace(LEFT, WIDTH - RIGHT, length)


def _panel(name: str, observed: Floats, expected: Floats, known: NDArray[np.bool_], top: int, least_span: float) -> str:
    """Panel with the curves of an observed and a predicted component over time."""
    half, places = len(known) // 2, _places(len(known))
    drawn = np.concatenate([observed[known], expected[known]])
    low, high = (float(drawn.min()), float(drawn.max())) if len(drawn) else (0.0, 1.0)
    room = max(0.0, max(least_span, 1e-6) - (high - low)) / 2
    low, high = low - room, high + room

    def line(values: Floats, rows: NDArray[np.int64], color: str) -> str:
        points = [f"{places[t]:.1f},{top + HEIGHT - (values[t] - low) / (high - low) * HEIGHT:.1f}" for t in rows]
        return f'<polyline fill="none" stroke="{color}" stroke-width="2" points="{" ".join(points)}"/>'

    rows = np.flatnonzero(known)
    border = f'<line x1="{places[half]:.1f}" x2="{places[half]:.1f}" y1="{top}" y2="{top + HEIGHT}" stroke="#999"/>'
    lines = [
        line(observed, rows, "#999"),
        line(expected, rows[rows < half], "#3f86d6"),
        line(expected, rows[rows >= half], "#e07b39"),
    ]
    ends = [_words(4, top + 12, f"{high:.3g}"), _words(4, top + HEIGHT, f"{low:.3g}")]
    return border + "".join([*lines, *ends, _words(LEFT, top - 8, name)])


def _time_axis(length: int, bottom: int) -> str:
    """Axis that counts the steps of a sequence."""
    places = _places(length)
    steps = np.unique(np.linspace(0, length - 1, 5).round().astype(int))
    axis = f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{bottom + 6}" y2="{bottom + 6}" stroke="#999"/>'
    ticks = "".join(_words(places[step] - 8, bottom + 24, str(step)) for step in steps)
    return axis + ticks + _words(0.62 * WIDTH, bottom + 24, "env steps")


def _strip(images: Floats, decoded: Floats, known: NDArray[np.bool_], top: int) -> tuple[str, int]:
    """Strip of observed frames above decoded frames; returns the SVG element and its height."""
    frames = np.unique(np.linspace(0, len(known) - 1, MOST_FRAMES).round().astype(int))
    rows = [np.where(known[frames, None, None, None], own[frames], 1.0) for own in (images, decoded)]
    both = np.concatenate([np.concatenate([*own], -1) for own in rows], -2)
    shades = both[:1].repeat(3, 0) if len(both) in (1, 2) else both[-3:]
    pixels = (shades * 255).round().clip(0, 255).astype(np.uint8).transpose(1, 2, 0)
    width = WIDTH - LEFT - RIGHT
    height = round(width * pixels.shape[0] / pixels.shape[1])
    data = base64.b64encode(png_of(pixels)).decode()
    place = f'x="{LEFT}" y="{top}" width="{width}" height="{height}"'
    return f'<image {place} href="data:image/png;base64,{data}"/>', height


def png_of(pixels: NDArray[np.uint8]) -> bytes:
    """Encodes an image [height, width, 3] as PNG bytes."""
    height, width, _ = pixels.shape
    lines = np.concatenate([np.zeros((height, 1), np.uint8), pixels.reshape(height, 3 * width)], 1)

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    body = zlib.compress(lines.tobytes(), 9)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", body) + chunk(b"IEND", b"")


def _words(x: float, y: float, text: str) -> str:
    return f'<text x="{x:g}" y="{y:g}">{text}</text>'
