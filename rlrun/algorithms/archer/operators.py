"""Operators of ArCHer that initialize critics, find utterances in replayed sequences, and compute advantages.

For an agent that writes one token per env step, an utterance is an action over many steps. An utterance ends with
certain tokens, or with the episode. The observation after its last token is the first one of the next utterance.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from rlrun.algorithms.archer.settings import ACTOR, CRITICS
from rlrun.engine.data.action_masks import mask_of
from rlrun.engine.data.learning_rows import target_rows
from rlrun.engine.data.sample_batch import SampleBatch, network_columns
from rlrun.engine.flow.flow import Operator, StatefulOperator

if TYPE_CHECKING:
    from rlrun.engine.flow.trainee import Trainee


Flags = NDArray[np.bool_]

Floats = NDArray[np.float32]

EPSILON = 1e-8


class FindUtterances(Operator):
    """Adds columns that describe the utterances in sequences [S, L], with entries at each utterance's last token.

    Columns are `utterance_ends`, `utterance_starts` and `utterance_decisions` (the fields of `Utterances`),
    `utterance_rewards` (sums over the tokens), and `utterance_discounts`: `gamma`, or 0 if the utterance terminated its
    episode.

    Args:
        gamma: Discount factor from one utterance to the next.
        end_tokens: Tokens that end an utterance; None if each token is an utterance.
    """

    def __init__(self, gamma: float, end_tokens: Sequence[int] | None) -> None:
        self.gamma = gamma
        self.end_tokens = end_tokens

    @override
    def settings(self) -> dict[str, Any]:
        return {"gamma": self.gamma, "utterance_end": self.end_tokens}

    @override
    def __call__(self, item: SampleBatch) -> SampleBatch:
        found = replayed_utterances(item, self.end_tokens)
        kept = {name: item[name] for name in (*network_columns(item), "logp", "weights", "indices")}
        return SampleBatch(
            kept,
            utterance_ends=found.ends,
            utterance_starts=found.starts,
            utterance_decisions=found.decisions,
            utterance_rewards=found.sums(item["rewards"]),
            utterance_discounts=np.float32(self.gamma) * item["discounts"],
        )


def replayed_utterances(batch: SampleBatch, end_tokens: Sequence[int] | None) -> Utterances:
    """Finds the complete utterances in replayed token sequences.

    The sequences come from a replay buffer of single steps with a discount factor of 1, so the column `discounts` is 0
    at terminations and 1 elsewhere. A step is the last of its episode if its discount is 0 or no step follows it within
    the sequence. At a sequence's end, the episode may have been truncated or may continue, so the utterance there is
    complete only if its last token is an end token.

    Args:
        batch: Columns [S, L], as sampled from the replay buffer.
        end_tokens: Tokens that end an utterance; None if each token is an utterance.
    """
    valid = batch["valid"]
    lasts = last_tokens(batch["actions"], end_tokens) | (batch["discounts"] == 0)
    lasts[:, :-1] |= ~valid[:, 1:]
    starts, chosen = batch["episode_starts"][:, : valid.shape[1]], choices(batch["obs"], valid.shape)
    return utterances(lasts, valid, starts, chosen)


class UtteranceAdvantages(Operator):
    """Adds the `advantages` and the acting policy's `probabilities` of all A tokens at each step, [T, B, A].

    At an utterance's last choice, each token gets the advantage Q(s, u) - mean Q, where Q is the smaller of the two
    critics' values and the mean is over the actor's probabilities. At the utterance's other choices, the chosen token
    gets mean Q - V, centered over utterances and then divided by the token's probability (an unbiased estimate, since
    Q is unknown for tokens not chosen), and the others get 0. Advantages are divided by the standard deviation of
    Q - V.

    Tokens of utterances that are cut off at the start or end of the rollout fragment are masked out of the losses.

    Args:
        trainee: The policy in training, with an `ArcherPolicy`.
        end_tokens: Tokens that end an utterance; None if each token is an utterance.
    """

    def __init__(self, trainee: Trainee, end_tokens: Sequence[int] | None) -> None:
        self.trainee = trainee
        self.end_tokens = end_tokens

    @override
    def settings(self) -> dict[str, Any]:
        return {"utterance_end": self.end_tokens}

    @override
    def __call__(self, item: SampleBatch) -> SampleBatch:
        from rlrun.algorithms.archer.policy import evaluated_tokens

        rows, packing = target_rows(item)
        judged = self.trainee.learner.evaluate(evaluated_tokens, network_columns(rows))
        lasts = last_tokens(rows["actions"], self.end_tokens) | rows["terminateds"] | rows["truncateds"]
        chosen = choices(rows["obs"], lasts.shape)
        found = utterances(lasts, rows["valid"], rows["episode_starts"], chosen)
        advantages, belongs = redrawn_advantages(found, rows["actions"], **judged)

        def unpacked(column: NDArray[Any]) -> NDArray[Any]:
            return packing.unpack(column.swapaxes(0, 1)[:-1])

        return SampleBatch(
            item,
            advantages=unpacked(advantages),
            probabilities=unpacked(judged["probabilities"]),
            valid=item["valid"] & unpacked(belongs),
        )


def redrawn_advantages(
    found: Utterances, actions: NDArray[np.int64], q: Floats, v: Floats, probabilities: Floats
) -> tuple[Floats, Flags]:
    """Standardized advantages of all A possible tokens at each step, computed as in `UtteranceAdvantages`.

    Args:
        found: The utterances in rows of steps [S, L].
        actions: The chosen tokens, [S, L].
        q: Q of the utterance that ends with each token, [S, L, A].
        v: V before each step, [S, L].
        probabilities: The actor's probabilities of the tokens, [S, L, A].

    Returns:
        Advantages [S, L, A], and mask [S, L] of steps that belong to complete utterances.
    """
    means = (probabilities * q).sum(-1)
    rows, lasts = found.ends.nonzero()
    number, decisions = max(len(rows), 1), (rows, found.decisions[rows, lasts])
    redrawn = q[decisions] - means[decisions][:, None]
    before = means[decisions] - v[rows, found.starts[rows, lasts]]
    before -= before.sum() / number
    variances = before**2 + (probabilities[decisions] * redrawn**2).sum(-1)
    column = np.zeros_like(means)
    column[rows, lasts] = before
    own, belongs = found.spread(column)
    said = np.take_along_axis(probabilities, actions[..., None], -1)
    advantages = np.zeros_like(q)
    np.put_along_axis(advantages, actions[..., None], own[..., None] / np.where(belongs[..., None], said, 1), -1)
    advantages[decisions] = redrawn
    return advantages / (np.sqrt(variances.sum() / number) + EPSILON), belongs


class CopyActorToCritics(StatefulOperator):
    """Copies the layers below the actor's heads to the critics, once, before the first update.

    An actor trained by behavior cloning already encodes dialogues. Critics with random parameters would have to learn
    such an encoding from rewards alone; in the paper, too, critics start from a trained language model. If the
    critics observe more than the actor, layers of different shapes are not copied.

    Args:
        trainee: The policy in training, with an `ArcherPolicy`.
    """

    def __init__(self, trainee: Trainee) -> None:
        self.trainee = trainee
        self._has_begun = False

    @override
    def __call__(self, item: Any) -> Any:
        if not self._has_begun:
            self._begin()
        return item

    def _begin(self) -> None:
        self._has_begun = True
        learner, parameters = self.trainee.learner, self.trainee.policy.parameters
        named = parameters.named(learner.flat())
        for name in [name for name in named if name.startswith(CRITICS)]:
            giver = named.get(ACTOR + name.removeprefix(CRITICS))
            if giver is not None and giver.shape == named[name].shape:
                named[name] = giver
        flat = parameters.from_named(named)
        learner.load_flat(flat)
        learner.load_target(flat)

    @override
    def state(self) -> dict[str, Any]:
        return {"has_begun": self._has_begun}

    @override
    def load_state(self, state: dict[str, Any]) -> None:
        self._has_begun = bool(state["has_begun"])


class Utterances(NamedTuple):
    """Utterances in S rows of L steps, one token each; arrays [S, L] store an utterance's value at its last token.

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
        """Sums of a column [rows, steps] over the tokens of each utterance, stored at its last token; 0 elsewhere."""
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
        # The next utterance end at or after each step. Steps before that utterance's first token do not belong to it.
        following = np.minimum.accumulate(np.where(self.ends, steps, length - 1)[:, ::-1], axis=1)[:, ::-1]
        first = np.full(self.ends.shape, length)
        first[rows, lasts] = firsts
        belongs = np.take_along_axis(first, following, 1) <= steps
        return np.where(belongs, np.take_along_axis(column, following, 1), np.float32(0)), belongs


def last_tokens(actions: NDArray[np.int64], end_tokens: Sequence[int] | None) -> Flags:
    """Mask [...] of the tokens that end an utterance even if the episode continues.

    Args:
        actions: The tokens.
        end_tokens: Tokens that end an utterance; None if each token is an utterance.
    """
    return np.ones(actions.shape, np.bool_) if end_tokens is None else np.isin(actions, end_tokens)


def choices(observations: Any, shape: tuple[int, ...]) -> Flags:
    """Whether more than one token was allowed at each step, according to the action masks; True without masks.

    Args:
        observations: Tree of observations [S, L, ...]; any time steps after the first L are ignored.
        shape: Shape of the result, (S, L).
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
        lasts: Whether a step's token ends its utterance, or its episode, [S, L]; arbitrary at entries without a step.
        valid: Whether the entry holds a step, [S, L].
        episode_starts: Whether an episode begins with the step, [S, L]; arbitrary at entries without a step.
        chosen: Whether the step's token was a choice, [S, L]; arbitrary at entries without a step.
    """
    lasts, steps = lasts & valid, np.arange(valid.shape[1])
    begins = episode_starts & valid
    begins[:, 1:] |= valid[:, 1:] & (lasts[:, :-1] | ~valid[:, :-1])
    known = np.maximum.accumulate(np.where(begins, steps, -1), axis=1)
    ends = lasts & (known >= 0)
    last_choice = np.maximum.accumulate(np.where(chosen & valid, steps, -1), axis=1)
    decisions = np.where(ends & (last_choice >= known), last_choice, steps)
    return Utterances(ends, np.where(ends, known, steps), decisions)
