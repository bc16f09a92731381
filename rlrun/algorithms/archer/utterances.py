"""Utterances in streams of tokens: their first and last tokens, and their rewards (NumPy).

For an agent that writes one token per env step, an utterance is an action over many steps. An utterance ends with
certain tokens, or with the episode. The observation after its last token is the first one of the next utterance.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rlrun.engine.data.action_masks import mask_of

Flags = NDArray[np.bool_]


class Utterances(NamedTuple):
    """Utterances in rows of consecutive steps; each is described at its last token, [S, L].

    Attributes:
        ends: Whether the step is the last token of an utterance whose first token is in the same row.
        starts: Index within the row of the utterance's first token; the step's own index where `ends` is False.
        decisions: Index within the row of the utterance's last token at which there was a choice (the last token if
            there was no choice); the step's own index where `ends` is False.
    """

    ends: Flags
    starts: NDArray[np.int64]
    decisions: NDArray[np.int64]

    def sums(self, column: NDArray[np.float32]) -> NDArray[np.float32]:
        """Sums of a column [S, L] over the tokens of each utterance, at its last token; 0 elsewhere."""
        totals = np.cumsum(column, axis=1, dtype=np.float64)
        before = np.take_along_axis(totals - column, self.starts, 1)
        found: NDArray[np.float32] = np.where(self.ends, totals - before, 0.0).astype(np.float32)
        return found

    def spread(self, column: NDArray[np.float32]) -> tuple[NDArray[np.float32], Flags]:
        """Copies an utterance's entry of a column to all tokens of the utterance.

        Args:
            column: Numbers at the utterances' last tokens, [S, L].

        Returns:
            The numbers at all tokens of complete utterances, and the mask of these tokens, [S, L] each.
        """
        rows, lasts = self.ends.nonzero()
        firsts, length = self.starts[rows, lasts], self.ends.shape[1]
        steps = np.arange(length)
        # The last token at or after each step; a step of no complete utterance comes before that one's first token.
        following = np.minimum.accumulate(np.where(self.ends, steps, length - 1)[:, ::-1], axis=1)[:, ::-1]
        first = np.full(self.ends.shape, length)
        first[rows, lasts] = firsts
        belongs = np.take_along_axis(first, following, 1) <= steps
        return np.where(belongs, np.take_along_axis(column, following, 1), np.float32(0)), belongs


def last_tokens(actions: NDArray[np.int64], end_tokens: Sequence[int] | None) -> Flags:
    """Mask of the actions [...] that end an utterance regardless of the episode.

    Args:
        actions: The tokens.
        end_tokens: Tokens that end an utterance; None if each token is an utterance.
    """
    return np.ones(actions.shape, np.bool_) if end_tokens is None else np.isin(actions, end_tokens)


def choices(observations: Any, shape: tuple[int, ...]) -> Flags:
    """Whether more than one token was allowed at each step, by the observations' action masks; True without masks.

    Args:
        observations: Tree of observations [S, L, ...]; a further row is ignored.
        shape: S and L.
    """
    mask = mask_of(observations)
    if mask is None:
        return np.ones(shape, np.bool_)
    allowed: Flags = np.count_nonzero(mask[:, : shape[1]], axis=-1) > 1
    return allowed


def utterances(lasts: Flags, valid: Flags, episode_starts: Flags, chosen: Flags) -> Utterances:
    """Finds the complete utterances in rows of consecutive steps.

    The first step of a row begins an utterance only if an episode starts there, since the utterance may otherwise have
    begun before the row.

    Args:
        lasts: Whether a step's token ends its utterance, or its episode, [S, L]; arbitrary in rows without a step.
        valid: Whether there is a step, [S, L].
        episode_starts: Whether an episode begins with the step, [S, L]; arbitrary in rows without a step.
        chosen: Whether the step's token was a choice, [S, L]; arbitrary in rows without a step.
    """
    lasts, steps = lasts & valid, np.arange(valid.shape[1])
    begins = episode_starts & valid
    begins[:, 1:] |= valid[:, 1:] & (lasts[:, :-1] | ~valid[:, :-1])
    known = np.maximum.accumulate(np.where(begins, steps, -1), axis=1)
    ends = lasts & (known >= 0)
    last_choice = np.maximum.accumulate(np.where(chosen & valid, steps, -1), axis=1)
    decisions = np.where(ends & (last_choice >= known), last_choice, steps)
    return Utterances(ends, np.where(ends, known, steps), decisions)
