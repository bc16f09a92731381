"""Operators of ArCHer: the critics' beginning, utterances of replayed sequences, and advantages of new ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from typing_extensions import override

from rlrun.algorithms.archer.settings import ACTOR, CRITICS
from rlrun.algorithms.archer.utterances import Utterances, choices, last_tokens, utterances
from rlrun.data.learning_rows import target_rows
from rlrun.data.sample_batch import SampleBatch, network_columns
from rlrun.flow.flow import Operator, StatefulOperator

if TYPE_CHECKING:
    from rlrun.flow.trainee import Trainee


class FindUtterances(Operator):
    """Adds the utterances of replayed sequences [S, L]: what each earned, and where it begins, at its last token.

    Columns are `utterance_ends`, `utterance_starts`, `utterance_decisions`, `utterance_rewards` and
    `utterance_discounts`: `gamma`, or 0 where the utterance terminated its episode.

    Args:
        gamma: Discount factor of an utterance.
        end_tokens: Tokens that end an utterance; None if each token is one.
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
        kept = {name: item[name] for name in (*network_columns(item), "logp", "indices")}
        return SampleBatch(
            kept,
            utterance_ends=found.ends,
            utterance_starts=found.starts,
            utterance_decisions=found.decisions,
            utterance_rewards=found.sums(item["rewards"]),
            utterance_discounts=np.float32(self.gamma) * item["discounts"],
        )


def replayed_utterances(batch: SampleBatch, end_tokens: Sequence[int] | None) -> Utterances:
    """Complete utterances of sequences from a replay of single steps without discount, whose discounts are 1 or 0.

    A step ended its episode if its discount is 0, or if no step follows it. The last step of a sequence may have been
    truncated without a trace; its utterance then counts only if its token ends it.

    Args:
        batch: Columns [S, L] of a sequence replay.
        end_tokens: Tokens that end an utterance; None if each token is one.
    """
    valid = batch["valid"]
    lasts = last_tokens(batch["actions"], end_tokens) | (batch["discounts"] == 0)
    lasts[:, :-1] |= ~valid[:, 1:]
    starts, chosen = batch["episode_starts"][:, : valid.shape[1]], choices(batch["obs"], valid.shape)
    return utterances(lasts, valid, starts, chosen)


class UtteranceAdvantages(Operator):
    """Adds `advantages` [T, B]: each token has those of its utterance, min Q(s, u) - min V(s) by the critics.

    Tokens of utterances that are cut by the fragment's ends are not valid for the losses.

    Args:
        trainee: The trainee, with an `ArcherPolicy`.
        end_tokens: Tokens that end an utterance; None if each token is one.
    """

    def __init__(self, trainee: Trainee, end_tokens: Sequence[int] | None) -> None:
        self.trainee = trainee
        self.end_tokens = end_tokens

    @override
    def settings(self) -> dict[str, Any]:
        return {"utterance_end": self.end_tokens}

    @override
    def __call__(self, item: SampleBatch) -> SampleBatch:
        from rlrun.algorithms.archer.policy import smaller_values

        rows, packing = target_rows(item)
        values = self.trainee.learner.evaluate(smaller_values, network_columns(rows))
        lasts = last_tokens(rows["actions"], self.end_tokens) | rows["terminateds"] | rows["truncateds"]
        chosen = choices(rows["obs"], lasts.shape)
        found = utterances(lasts, rows["valid"], rows["episode_starts"], chosen)
        q, v = (np.take_along_axis(values[name], at, 1) for name, at in (("q", found.decisions), ("v", found.starts)))
        advantages = q - v
        own, belongs = found.spread(advantages)
        return SampleBatch(
            item,
            advantages=packing.unpack(own.T[:-1]),
            valid=item["valid"] & packing.unpack(belongs.T[:-1]),
        )


class BeginAsActor(StatefulOperator):
    """Copies the layers below the actor's heads to the critics, once, before they learn from the first fragment.

    A cloned actor remembers what a dialogue is about; critics from scratch would have to learn that from rewards alone.
    In the paper, too, the critics begin as a trained language model. Layers of other shapes keep their parameters, as
    where actor and critics see different parts.

    Args:
        trainee: The trainee, with an `ArcherPolicy`.
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
