"""Comparisons of two episodes with a preference between them, arranged as rows for losses (NumPy)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rlrun.engine.data.sample_batch import SampleBatch, concatenated_rows
from rlrun.engine.datasets.data_set import DataSet, Indices
from rlrun.engine.datasets.transitions import Sequences, returns_to_go
from rlrun.engine.messages.errors import UsageError

PREFERENCE = "preference"
"""Column of a comparison: 1 in the steps of the preferred episode, -1 in those of the other one, 0 elsewhere."""

EPISODE_ENDS = "episode_ends"
"""Column of a comparison: whether the step is the last one of its episode."""

Doubles = NDArray[np.float64]


def preferred(first: Doubles, second: Doubles, temperature: float, generator: np.random.Generator) -> NDArray[np.bool_]:
    """Samples, by the Bradley-Terry model, whether the first of two episodes is preferred, [N].

    P(first preferred) = sigmoid((R_first - R_second) / temperature), with the episodes' returns R.

    Source:
        Bradley and Terry, "Rank analysis of incomplete block designs", Biometrika 1952.

    Args:
        first: Returns of the first episodes, [N].
        second: Returns of the second episodes, [N].
        temperature: Difference of returns at which the odds are e to 1.
        generator: Random generator.
    """
    drawn: NDArray[np.bool_] = (first - second) / temperature + generator.logistic(size=len(first)) > 0
    return drawn


def compared(first: SampleBatch, second: SampleBatch, is_first: NDArray[np.bool_], axis: int) -> SampleBatch:
    """Arranges comparisons as batches: the steps of the first episodes, followed by the steps of the second episodes.

    The recurrent state is reset between the two episodes, since `episode_starts` marks the first step of each episode.

    Args:
        first: N complete episodes of up to L steps, with equal columns, without their final observations.
        second: The episodes with which they are compared.
        is_first: Whether the first episode is preferred, [N].
        axis: Time axis of the batches: 1 for rows [N, L, ...], 0 for [L, N, ...].
    """
    signs = np.expand_dims(np.where(is_first, 1.0, -1.0).astype(np.float32), axis)
    parts = []
    for part, sign in ((first, signs), (second, -signs)):
        valid = part["valid"]
        starts = np.zeros_like(valid)
        starts[(0, slice(None)) if axis == 0 else (slice(None), 0)] = True
        ends = valid & (part["terminateds"] | part["truncateds"])
        marks = {"episode_starts": starts, EPISODE_ENDS: ends, PREFERENCE: valid * sign}
        parts.append({name: part[name] for name in ("obs", "actions", "valid")} | marks)
    return concatenated_rows(parts, axis=axis)


class Comparisons:
    """Comparisons of a data set's episodes in fixed random pairs, with noisy preferences for higher returns.

    Preferences are sampled by the Bradley-Terry model; see `preferred`. If there are too few episodes for all pairs,
    each episode is in several pairs, with different partners and new preferences. Episodes of held-out pairs do not
    appear in other pairs. A row has the 2 L steps of both episodes of a pair; see `compared`.

    Args:
        data: The data set.
        pairs: Number of pairs to learn from.
        held_out: Number of held-out pairs.
        length: L, maximum number of steps of an episode.
        temperature: Temperature of the preferences; see `preferred`.
        seed: Seed for the pairs and for the noise in the preferences.
        is_held_out: Whether to present the held-out pairs instead of the pairs to learn from.

    Raises:
        UsageError: The data set has too few episodes, or one that is too long.
    """

    def __init__(
        self,
        data: DataSet,
        *,
        pairs: int,
        held_out: int,
        length: int,
        temperature: float,
        seed: int,
        is_held_out: bool = False,
    ) -> None:
        bounds = data.episodes
        own = min(pairs, len(bounds.lengths) // 2 - held_out)  # number of pairs if no episode is used twice
        if own < 1:
            raise UsageError(
                f"{data.folder} has {len(bounds.lengths):,} episodes, but {held_out:,} held-out pairs and one "
                f"training pair need {2 * (held_out + 1):,}: record more, or lower config.held_out_pairs"
            )
        check_length(int(bounds.lengths.max()), length)
        generator = np.random.Generator(np.random.Philox(seed))
        returns = returns_to_go(data, 1.0)[bounds.starts]

        def drawn(episodes: Indices, number: int) -> tuple[Indices, Indices, NDArray[np.bool_]]:
            first, second = generator.permutation(episodes)[: 2 * number].reshape(2, number)
            return first, second, preferred(returns[first], returns[second], temperature, generator)

        kept = slice(own, None) if is_held_out else slice(own)
        rounds = [tuple(part[kept] for part in drawn(np.arange(len(returns)), own + held_out))]
        for begun in () if is_held_out else range(own, pairs, own):
            rounds.append(drawn(np.concatenate(rounds[0][:2]), min(own, pairs - begun)))
        self._first, self._second, self._is_first = map(np.concatenate, zip(*rounds, strict=True))
        self._episodes = Sequences(data, length=length)

    def __len__(self) -> int:
        return len(self._first)

    def gather(self, items: Indices) -> SampleBatch:
        """Reads the comparisons with the given indices [rows]."""
        first, second = (self._episodes.gather(episodes[items]) for episodes in (self._first, self._second))
        return compared(first, second, self._is_first[items], axis=1)


def check_length(steps: int, length: int) -> None:
    """Validates that a complete episode is not longer than the maximum length of compared episodes.

    Raises:
        UsageError: The episode is too long.
    """
    if steps > length:
        raise UsageError(
            f"an episode has {steps:,} steps, more than config.seq_len ({length}): raise seq_len, because "
            "whole episodes are compared"
        )
